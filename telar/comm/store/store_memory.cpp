#include "telar/comm/store/store_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <new>
#include <utility>

#include "telar/comm/store/memory_ring.h"
#include "telar/comm/store/random_id.h"
#include "telar/core/buffer.h"
#include "telar/core/error.h"

namespace telar {
namespace {

struct RequestEntry {
  FrameHeader header;
  std::array<uint32_t, kMostRoundMembers> members;
};

}  // namespace

struct StoreMemory::Control {
  uint64_t proof = 0;
  alignas(64) std::atomic<uint32_t> begun{0};
  MemoryRing<RequestEntry, kMostRequests> requests;
  MemoryRing<FrameHeader, kMostRequests> answers;
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
  control().requests.clear();
  control().answers.clear();
  control().begun = 1;
}

bool StoreMemory::begun() const { return control().begun.load() == 1; }
void StoreMemory::prepare() { control().begun = 0; }

void StoreMemory::put_request(const FrameHeader& header, std::span<const uint32_t> members) {
  control().requests.put([&](RequestEntry& entry) {
    entry.header = header;
    std::ranges::copy(members, entry.members.begin());
  });
}

std::optional<StoreMemory::Request> StoreMemory::take_request() {
  Request request;
  const bool taken = control().requests.take([&](const RequestEntry& entry) {
    request.header = entry.header;
    if (request.header.members > kMostRoundMembers) throw user_error("a damaged request: too many members");
    request.members.assign(entry.members.begin(), entry.members.begin() + request.header.members);
  });
  return taken ? std::optional(std::move(request)) : std::nullopt;
}

void StoreMemory::put_answer(const FrameHeader& header) {
  control().answers.put([&](FrameHeader& entry) { entry = header; });
}

std::optional<FrameHeader> StoreMemory::take_answer() {
  FrameHeader header;
  const bool taken = control().answers.take([&](const FrameHeader& entry) { header = entry; });
  return taken ? std::optional(header) : std::nullopt;
}

void StoreMemory::wait_for_request(std::chrono::milliseconds longest) { control().requests.wait(longest); }
void StoreMemory::wait_for_answer(std::chrono::milliseconds longest) { control().answers.wait(longest); }

}  // namespace telar
