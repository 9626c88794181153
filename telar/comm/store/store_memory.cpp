#include "telar/comm/store/store_memory.h"

#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <new>
#include <utility>

#include "telar/comm/store/random_id.h"
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
  static constexpr size_t bytes() { return align_up(sizeof(Control)); }
};

StoreMemory::StoreMemory(Key /*key*/, const MemoryRegion& outgoing, const MemoryRegion& rest, size_t floats)
    : outgoing_(outgoing), rest_(rest), floats_(floats) {}

StoreMemory::~StoreMemory() {
  outgoing_.release();
  rest_.release();
}

MemoryRegion StoreMemory::create(size_t bytes) {
  const MemoryRegion region = MemoryRegion::create(bytes);
  if (region.mapped == nullptr || region.allocate()) return region;
  region.release();
  return {};
}

/// Null if one of the two is not there.
std::shared_ptr<StoreMemory> StoreMemory::of(const MemoryRegion& outgoing, const MemoryRegion& rest,
                                             size_t floats) {
  if (outgoing.mapped != nullptr && rest.mapped != nullptr)
    return std::make_shared<StoreMemory>(Key{}, outgoing, rest, floats);
  outgoing.release();
  rest.release();
  return nullptr;
}

std::shared_ptr<StoreMemory> StoreMemory::make(size_t floats) {
  const size_t bytes = floats * sizeof(float);
  const MemoryRegion rest = create(Control::bytes() + bytes);
  if (rest.mapped != nullptr) ::new (rest.mapped) Control{.proof = random_id()};
  return of(create(bytes), rest, floats);
}

bool StoreMemory::renew() {
  const MemoryRegion fresh = create(rest_.bytes);
  if (fresh.mapped == nullptr) return false;
  auto* place = static_cast<std::byte*>(fresh.mapped);
  ::new (place) Control{.proof = random_id()};
  std::memcpy(place + Control::bytes(), incoming().data(), incoming().size_bytes());
  if (mremap(fresh.mapped, fresh.bytes, fresh.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, rest_.mapped) ==
      MAP_FAILED) {
    fresh.release();
    return false;
  }
  close(std::exchange(rest_.descriptor, fresh.descriptor));
  return true;
}

std::shared_ptr<StoreMemory> StoreMemory::open(const std::string& where, size_t floats) {
  const auto numbers = numbers_in<3>(where);  // of the process, and of its descriptors
  if (!numbers) return nullptr;
  const size_t bytes = floats * sizeof(float);
  return of(MemoryRegion::open((*numbers)[0], (*numbers)[1], bytes),
            MemoryRegion::open((*numbers)[0], (*numbers)[2], Control::bytes() + bytes), floats);
}

StoreMemory::Control& StoreMemory::control() const { return *static_cast<Control*>(rest_.mapped); }

std::string StoreMemory::where() const {
  return fmt::format("{}:{}:{}", getpid(), outgoing_.descriptor, rest_.descriptor);
}
uint64_t StoreMemory::proof() const { return control().proof; }

std::span<float> StoreMemory::outgoing() const { return {static_cast<float*>(outgoing_.mapped), floats_}; }
std::span<float> StoreMemory::incoming() const {
  return {reinterpret_cast<float*>(static_cast<std::byte*>(rest_.mapped) + Control::bytes()), floats_};
}

void StoreMemory::begin() {
  control().begun = 0;
  control().requests_written.count = 0;
  control().requests_read.count = 0;
  control().answers_written.count = 0;
  control().answers_read.count = 0;
  control().begun = 1;
}

bool StoreMemory::begun() const { return control().begun.load() == 1; }
void StoreMemory::prepare() { control().begun = 0; }

void StoreMemory::put_request(const FrameHeader& header, std::span<const uint32_t> members) {
  const uint32_t next = control().requests_written.count.load(std::memory_order_relaxed);
  RequestEntry& entry = control().requests[next % kRing];
  entry.header = header;
  std::ranges::copy(members, entry.members.begin());
  control().requests_written.publish(next + 1);
}

std::optional<StoreMemory::Request> StoreMemory::take_request() {
  const uint32_t next = control().requests_read.count.load(std::memory_order_relaxed);
  if (control().requests_written.count.load(std::memory_order_acquire) == next) return std::nullopt;
  const RequestEntry& entry = control().requests[next % kRing];
  Request request{.header = entry.header};
  if (request.header.members > kMostRoundMembers) throw user_error("a damaged request: too many members");
  request.members.assign(entry.members.begin(), entry.members.begin() + request.header.members);
  control().requests_read.count.store(next + 1, std::memory_order_release);
  return request;
}

void StoreMemory::put_answer(const FrameHeader& header) {
  const uint32_t next = control().answers_written.count.load(std::memory_order_relaxed);
  control().answers[next % kRing] = header;
  control().answers_written.publish(next + 1);
}

std::optional<FrameHeader> StoreMemory::take_answer() {
  const uint32_t next = control().answers_read.count.load(std::memory_order_relaxed);
  if (control().answers_written.count.load(std::memory_order_acquire) == next) return std::nullopt;
  const FrameHeader header = control().answers[next % kRing];
  control().answers_read.count.store(next + 1, std::memory_order_release);
  return header;
}

void StoreMemory::wait_for_request(std::chrono::milliseconds longest) {
  control().requests_written.wait_beyond(control().requests_read.count, longest);
}
void StoreMemory::wait_for_answer(std::chrono::milliseconds longest) {
  control().answers_written.wait_beyond(control().answers_read.count, longest);
}

}  // namespace telar
