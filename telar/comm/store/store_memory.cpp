#include "telar/comm/store/store_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <new>
#include <random>

#include "telar/core/buffer.h"
#include "telar/core/error.h"

namespace telar {
namespace {

constexpr uint32_t kRing = StoreMemory::kMostRequests;
/// Polls before sleeping: only some microseconds, because the other side may need this core.
constexpr int kLooks = 200;

/// The number of entries written to a ring, and whether the reader sleeps until there are more.
struct alignas(64) Written {
  std::atomic<uint32_t> count;
  std::atomic<uint32_t> sleeping;

  void publish(uint32_t next) {
    count.store(next);
    if (sleeping.exchange(0) != 0) syscall(SYS_futex, &count, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }
  void wait_beyond(uint32_t seen, std::chrono::milliseconds longest) {
    for (int i = 0; i < kLooks; ++i) {
      if (count.load(std::memory_order_acquire) != seen) return;
      __builtin_ia32_pause();
    }
    sleeping.store(1);
    if (count.load() != seen) return;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(longest);
    const timespec time{.tv_sec = seconds.count(),
                        .tv_nsec = std::chrono::nanoseconds(longest - seconds).count()};
    syscall(SYS_futex, &count, FUTEX_WAIT, seen, &time, nullptr, 0);
  }
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

struct alignas(64) Read {
  std::atomic<uint32_t> count;
};

struct RequestEntry {
  FrameHeader header;
  std::array<uint32_t, kMostRoundMembers> members;
};

template <typename Number>
bool number(std::string_view text, Number& value) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && stop == text.data() + text.size();
}

}  // namespace

struct StoreMemory::Control {
  uint64_t proof = 0;
  alignas(64) std::atomic<uint32_t> begun{0};
  Written requests_written{};
  Read requests_read{};
  Written answers_written{};
  Read answers_read{};
  std::array<RequestEntry, kRing> requests;
  std::array<FrameHeader, kRing> answers;
};

namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

StoreMemory::StoreMemory(Key /*key*/, int descriptor, void* mapped, size_t bytes, size_t floats)
    : descriptor_(descriptor), control_(static_cast<Control*>(mapped)), bytes_(bytes), floats_(floats) {}

StoreMemory::~StoreMemory() {
  munmap(control_, bytes_);
  close(descriptor_);
}

std::shared_ptr<StoreMemory> StoreMemory::make(size_t floats) {
  const size_t bytes = align_up(sizeof(Control)) + 2 * floats * sizeof(float);
  const int descriptor = memfd_create("telar-store", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) return nullptr;
  void* mapped = MAP_FAILED;
  // Allocates the pages now; otherwise a lack of memory would become a SIGBUS later.
  if (posix_fallocate(descriptor, 0, static_cast<off_t>(bytes)) == 0 &&
      fcntl(descriptor, F_ADD_SEALS, kSeals) == 0)
    mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (mapped == MAP_FAILED) {
    close(descriptor);
    return nullptr;
  }
  std::random_device device;
  auto* control = ::new (mapped) Control;
  control->proof = (uint64_t{device()} << 32) | device();
  return std::make_shared<StoreMemory>(Key{}, descriptor, mapped, bytes, floats);
}

std::shared_ptr<StoreMemory> StoreMemory::open(const std::string& where, size_t floats) {
  const size_t colon = where.find(':');
  int process = 0;
  int theirs = 0;
  if (colon == std::string::npos || !number(std::string_view(where).substr(0, colon), process) ||
      !number(std::string_view(where).substr(colon + 1), theirs))
    return nullptr;
  // O_NONBLOCK: whatever this file is, opening it must not wait.
  const int descriptor = ::open(fmt::format("/proc/{}/fd/{}", process, theirs).c_str(),
                                O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) return nullptr;
  const size_t bytes = align_up(sizeof(Control)) + 2 * floats * sizeof(float);
  struct stat status {};
  void* mapped = MAP_FAILED;
  // Only a memfd has seals. A sealed one cannot shrink while it is in use.
  if (fcntl(descriptor, F_GET_SEALS) == kSeals && fstat(descriptor, &status) == 0 &&
      status.st_size == static_cast<off_t>(bytes))
    mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (mapped == MAP_FAILED) {
    close(descriptor);
    return nullptr;
  }
  return std::make_shared<StoreMemory>(Key{}, descriptor, mapped, bytes, floats);
}

std::string StoreMemory::where() const { return fmt::format("{}:{}", getpid(), descriptor_); }
uint64_t StoreMemory::proof() const { return control_->proof; }

std::span<float> StoreMemory::outgoing() const {
  return {reinterpret_cast<float*>(reinterpret_cast<std::byte*>(control_) + align_up(sizeof(Control))),
          floats_};
}
std::span<float> StoreMemory::incoming() const { return {outgoing().data() + floats_, floats_}; }

void StoreMemory::begin() {
  control_->begun = 0;
  control_->requests_written.count = 0;
  control_->requests_read.count = 0;
  control_->answers_written.count = 0;
  control_->answers_read.count = 0;
  control_->begun = 1;
}

bool StoreMemory::begun() const { return control_->begun.load() == 1; }
void StoreMemory::prepare() { control_->begun = 0; }

void StoreMemory::put_request(const FrameHeader& header, std::span<const uint32_t> members) {
  const uint32_t next = control_->requests_written.count.load(std::memory_order_relaxed);
  RequestEntry& entry = control_->requests[next % kRing];
  entry.header = header;
  std::ranges::copy(members, entry.members.begin());
  control_->requests_written.publish(next + 1);
}

std::optional<StoreMemory::Request> StoreMemory::take_request() {
  const uint32_t next = control_->requests_read.count.load(std::memory_order_relaxed);
  if (control_->requests_written.count.load(std::memory_order_acquire) == next) return std::nullopt;
  const RequestEntry& entry = control_->requests[next % kRing];
  Request request{.header = entry.header};
  if (request.header.members > kMostRoundMembers) throw user_error("a damaged request: too many members");
  request.members.assign(entry.members.begin(), entry.members.begin() + request.header.members);
  control_->requests_read.count.store(next + 1, std::memory_order_release);
  return request;
}

void StoreMemory::put_answer(const FrameHeader& header) {
  const uint32_t next = control_->answers_written.count.load(std::memory_order_relaxed);
  control_->answers[next % kRing] = header;
  control_->answers_written.publish(next + 1);
}

std::optional<FrameHeader> StoreMemory::take_answer() {
  const uint32_t next = control_->answers_read.count.load(std::memory_order_relaxed);
  if (control_->answers_written.count.load(std::memory_order_acquire) == next) return std::nullopt;
  const FrameHeader header = control_->answers[next % kRing];
  control_->answers_read.count.store(next + 1, std::memory_order_release);
  return header;
}

void StoreMemory::wait_for_request(std::chrono::milliseconds longest) {
  control_->requests_written.wait_beyond(control_->requests_read.count, longest);
}
void StoreMemory::wait_for_answer(std::chrono::milliseconds longest) {
  control_->answers_written.wait_beyond(control_->answers_read.count, longest);
}

}  // namespace telar
