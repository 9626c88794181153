#include "telar/weave/memory.h"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>

namespace telar::weave {

void make_room(size_t source_bytes) {
  constexpr size_t kHugePage = size_t{2} << 20;
  constexpr size_t kTreeForEachByte = 80;
  constexpr size_t kMost = size_t{512} << 20;
  const size_t room = std::min(source_bytes * kTreeForEachByte, kMost);
  if (room < 8 * kHugePage) return;
  mallopt(M_MMAP_THRESHOLD, static_cast<int>(16 * kHugePage));
  mallopt(M_TRIM_THRESHOLD, static_cast<int>(kMost));
  mallopt(M_TOP_PAD, static_cast<int>(room));
  // An allocation that does not fit makes the heap grow by the whole room.
  const auto first = std::make_unique_for_overwrite<char[]>(kHugePage);
  char* begin = first.get();
  begin += (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  char* const end = static_cast<char*>(sbrk(0));
  // Another allocator (of a sanitizer) takes its memory from elsewhere.
  if (!std::less<>()(begin, end) || static_cast<size_t>(end - begin) > 2 * room) return;
  madvise(begin, static_cast<size_t>(end - begin), MADV_HUGEPAGE);
}

}  // namespace telar::weave
