#include "telar/comm/linked/shared_mailboxes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "telar/core/error.h"

namespace telar {

namespace {

/// Tags of messages to one process: values that cross a cut × micro-batches. Messages of others pass outside.
constexpr int kTags = 4096;
constexpr uint64_t kPage = 4096;

[[noreturn]] void no_memory(uint64_t bytes) {
  throw run_error("there is no shared memory for a message of {} bytes to another process of this host: {}",
                  bytes, std::strerror(errno));
}

}  // namespace

/// In the memory of the process that sends.
struct SharedMailboxes::Box {
  // written by the sender
  alignas(64) std::atomic<uint64_t> sent;
  uint64_t offset;
  uint64_t room;
  uint64_t size;  ///< of the message
  // written by the receiver
  alignas(64) std::atomic<uint64_t> taken;
};

class SharedMailboxes::Outgoing final : public Transfer {
 public:
  Outgoing(SharedMailboxes& mail, Box& box, Place& place, std::span<const std::byte> bytes)
      : mail_(mail), box_(box), place_(place), bytes_(bytes) {}

  void start() override {
    mail_.watch_.wait_until([this] { return box_.taken.load(std::memory_order_acquire) == place_.started; },
                            Waits::for_memory);
    if (bytes_.size() > place_.memory.size()) mail_.enlarge(box_, place_, bytes_.size());
    std::ranges::copy(bytes_, place_.memory.begin());
    box_.size = bytes_.size();
    box_.sent.store(++place_.started, std::memory_order_release);
  }
  bool done() override { return true; }

 private:
  SharedMailboxes& mail_;
  Box& box_;
  Place& place_;
  std::span<const std::byte> bytes_;
};

class SharedMailboxes::Incoming final : public Transfer {
 public:
  Incoming(int file, Box& box, Place& place, std::span<std::byte> bytes)
      : file_(file), box_(box), place_(place), bytes_(bytes) {}
  ~Incoming() override {
    if (!done_) --place_.started;  // of a step that has failed
  }
  Incoming(const Incoming&) = delete;
  Incoming& operator=(const Incoming&) = delete;

  void start() override {
    number_ = ++place_.started;
    done_ = false;
  }
  bool done() override {
    if (done_) return true;
    if (box_.sent.load(std::memory_order_acquire) < number_) return false;
    if (box_.size != bytes_.size())
      throw run_error("a message of {} bytes instead of {}", box_.size, bytes_.size());
    if (box_.room != place_.memory.size() || box_.offset != place_.offset)
      map(file_, place_, box_.offset, box_.room);
    std::ranges::copy(place_.memory.first(bytes_.size()), bytes_.begin());
    box_.taken.store(number_, std::memory_order_release);
    done_ = true;
    return true;
  }

 private:
  int file_;
  Box& box_;
  Place& place_;
  std::span<std::byte> bytes_;
  uint64_t number_ = 0;
  bool done_ = true;
};

std::unique_ptr<SharedMailboxes> SharedMailboxes::make(const Circle& circle) {
  auto regions =
      SharedRegions::make(circle, static_cast<size_t>(circle.size()) * size_t{kTags} * sizeof(Box));
  if (regions == nullptr) return nullptr;
  std::unique_ptr<SharedMailboxes> mailboxes(new SharedMailboxes(circle, std::move(regions)));
  return mailboxes->open_files(circle) ? std::move(mailboxes) : nullptr;
}

bool SharedMailboxes::open_files(const Circle& circle) {
  files_[own_] = memfd_create("telar messages", MFD_CLOEXEC);
  const auto processes = gathered<int64_t>(circle, getpid());
  const auto files = gathered(circle, files_[own_]);
  for (size_t other = 0; other < files.size(); ++other)
    if (other != own_)
      files_[other] =
          ::open(fmt::format("/proc/{}/fd/{}", processes[other], files[other]).c_str(), O_RDWR | O_CLOEXEC);
  const bool opened = std::ranges::all_of(files_, [](int file) { return file >= 0; });
  return std::ranges::count(gathered(circle, opened ? 1 : 0), 0) == 0;
}

SharedMailboxes::SharedMailboxes(const Circle& circle, std::unique_ptr<SharedRegions> regions)
    : watch_(circle.watch),
      ranks_(circle.ranks),
      own_(static_cast<size_t>(circle.index)),
      regions_(std::move(regions)),
      files_(ranks_.size(), -1) {}

SharedMailboxes::~SharedMailboxes() {
  for (const auto* places : {&places_to_, &places_from_})
    for (const auto& [key, place] : *places)
      if (!place.memory.empty()) munmap(place.memory.data(), place.memory.size());
  for (const int file : files_)
    if (file >= 0) close(file);
}

bool SharedMailboxes::serve(int rank, int tag) const {
  return tag < kTags && std::ranges::find(ranks_, rank) != ranks_.end();
}

size_t SharedMailboxes::member(int rank) const {
  return static_cast<size_t>(std::ranges::find(ranks_, rank) - ranks_.begin());
}

SharedMailboxes::Box& SharedMailboxes::box(size_t from, size_t to, int tag) const {
  const size_t at = (to * size_t{kTags} + static_cast<size_t>(tag)) * sizeof(Box);
  return *std::launder(reinterpret_cast<Box*>(regions_->of(static_cast<int>(from)).data() + at));
}

std::unique_ptr<Transfer> SharedMailboxes::to(int rank, int tag, std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  const size_t to = member(rank);
  return std::make_unique<Outgoing>(*this, box(own_, to, tag), places_to_[{to, tag}], bytes);
}

std::unique_ptr<Transfer> SharedMailboxes::from(int rank, int tag, std::span<std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  const size_t from = member(rank);
  return std::make_unique<Incoming>(files_[from], box(from, own_, tag), places_from_[{from, tag}], bytes);
}

void SharedMailboxes::enlarge(Box& box, Place& place, size_t bytes) {
  const std::lock_guard lock(mutex_);
  const int file = files_[own_];
  const uint64_t room = (bytes + kPage - 1) / kPage * kPage;
  // The memory is taken here: a page that is missing later would end the process without a word.
  if (fallocate(file, 0, static_cast<off_t>(end_), static_cast<off_t>(room)) != 0) no_memory(room);
  if (!place.memory.empty())
    fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(place.offset),
              static_cast<off_t>(place.memory.size()));
  map(file, place, end_, room);
  end_ += room;
  box.offset = place.offset;
  box.room = room;
}

void SharedMailboxes::map(int file, Place& place, uint64_t offset, uint64_t bytes) {
  if (!place.memory.empty()) munmap(place.memory.data(), place.memory.size());
  place.memory = {};
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, static_cast<off_t>(offset));
  if (memory == MAP_FAILED) no_memory(bytes);
  place.memory = {static_cast<std::byte*>(memory), bytes};
  place.offset = offset;
}

}  // namespace telar
