#include "telar/core/buffer.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "telar/core/memory_limit.h"

namespace telar {

namespace {

/// Large memory uses huge pages where the system grants them on request. Every step streams through all
/// weights, and translating the addresses of 4 KiB pages costs as much as some operations. Elsewhere the
/// request has no effect.
std::byte* allocate(size_t bytes) {
  constexpr size_t kHugePage = size_t{2} << 20;
  if (bytes < 2 * kHugePage) return static_cast<std::byte*>(std::aligned_alloc(kAlignment, align_up(bytes)));
  const size_t whole = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  void* memory = std::aligned_alloc(kHugePage, whole);
  if (memory != nullptr) madvise(memory, whole, MADV_HUGEPAGE);
  return static_cast<std::byte*>(memory);
}

}  // namespace

Buffer::Buffer(size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  data_.reset(allocate(bytes));
  if (!data_) throw out_of_memory(fmt::format("{:.1f} MiB wanted", static_cast<double>(bytes) / 1048576.0));
  std::memset(data_.get(), 0, bytes);
}

void Buffer::Free::operator()(std::byte* memory) const { std::free(memory); }

}  // namespace telar
