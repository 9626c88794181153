#include "telar/comm/store/chain_memory.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "telar/comm/store/random_id.h"
#include "telar/core/error.h"

namespace telar {
namespace {

constexpr size_t kUnit = size_t{16} << 10;
/// Fewer bytes travel as fast with their frame.
constexpr size_t kLeast = size_t{4} << 10;

}  // namespace

ChainMemory::ChainMemory(Key /*key*/, const MemoryRegion& region)
    : region_(region), taken_(region.bytes / kUnit, false) {
  std::fill_n(taken_.begin(), control_units(), true);
}

size_t ChainMemory::control_units() { return (sizeof(Control) + kUnit - 1) / kUnit; }

std::shared_ptr<ChainMemory> ChainMemory::make(size_t bytes) {
  const MemoryRegion region = MemoryRegion::create((bytes / kUnit + 1 + control_units()) * kUnit);
  if (region.mapped == nullptr) return nullptr;
  auto made = std::make_shared<ChainMemory>(Key{}, region);
  if (!region.allocate(sizeof(Control))) return nullptr;
  ::new (region.mapped) Control{.proof = random_id(), .updates = {}, .helds = {}};
  return made;
}

std::shared_ptr<ChainMemory> ChainMemory::open(const std::string& where) {
  const auto numbers = numbers_in<4>(where);
  if (!numbers) return nullptr;
  const auto& [process, descriptor, bytes, proof] = *numbers;
  if (bytes < control_units() * kUnit) return nullptr;
  const MemoryRegion region = MemoryRegion::open(process, descriptor, bytes);
  if (region.mapped == nullptr) return nullptr;
  auto opened = std::make_shared<ChainMemory>(Key{}, region);
  // The pages of another host, or of another process with this number, have another proof.
  return opened->control().proof == proof && region.allocate() ? opened : nullptr;
}

std::string ChainMemory::where() const {
  return fmt::format("{}:{}:{}:{}", getpid(), region_.descriptor, region_.bytes, control().proof);
}

std::shared_ptr<const std::byte> ChainMemory::keep(std::span<const std::byte> values) {
  if (values.size() < kLeast) return nullptr;
  const size_t units = (values.size() + kUnit - 1) / kUnit;
  std::unique_lock lock(mutex_);
  const auto found = std::search_n(taken_.begin(), taken_.end(), static_cast<ptrdiff_t>(units), false);
  if (found == taken_.end()) return nullptr;
  std::fill_n(found, units, true);
  lock.unlock();
  const auto unit = static_cast<size_t>(found - taken_.begin());
  std::byte* copy = static_cast<std::byte*>(region_.mapped) + unit * kUnit;
  std::memcpy(copy, values.data(), values.size());
  return {copy, [own = shared_from_this(), unit, units](const std::byte*) { own->free(unit, units); }};
}

void ChainMemory::free(size_t unit, size_t units) {
  const std::lock_guard lock(mutex_);
  std::fill_n(taken_.begin() + static_cast<ptrdiff_t>(unit), units, false);
}

std::optional<size_t> ChainMemory::offset_of(const std::byte* copy) const {
  const auto* begin = static_cast<const std::byte*>(region_.mapped);
  if (copy < begin || copy >= begin + region_.bytes) return std::nullopt;
  return static_cast<size_t>(copy - begin);
}

std::span<const std::byte> ChainMemory::values(uint64_t offset, size_t bytes) const {
  if (offset > region_.bytes || bytes > region_.bytes - offset || offset % alignof(float) != 0)
    throw user_error("values at {} of a shared memory of {} bytes", offset, region_.bytes);
  return {static_cast<const std::byte*>(region_.mapped) + offset, bytes};
}

}  // namespace telar
