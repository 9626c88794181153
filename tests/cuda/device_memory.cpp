#include "cuda/device_memory.h"

#include <sanitizer/asan_interface.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "cuda/fakes.h"

namespace telar::test {

namespace {

constexpr size_t kPage = 4096;
constexpr size_t kWhole = size_t{8} << 30;  // address range; memory is allocated when it is first accessed

/// One address range that contains all blocks, so that one call opens or closes all of them.
class Region {
 public:
  static Region& get() {
    static Region region;
    return region;
  }

  void* allocate(size_t bytes) {
    const std::lock_guard lock(mutex_);
    // Ends with a page that belongs to no block.
    const size_t whole = (bytes + kPage - 1) / kPage * kPage + kPage;
    size_t at = 0;
    for (const auto& [begin, size] : blocks_) {
      if (begin - at >= whole) break;
      at = begin + size;
    }
    if (at + whole > kWhole) std::abort();
    blocks_[at] = whole;
    used_ = std::max(used_, at + whole);
    protect(true);
    ASAN_UNPOISON_MEMORY_REGION(base_ + at, whole);
    std::memset(base_ + at, 0xff, whole);  // NaN
    // The address sanitizer, if enabled, checks the ends of blocks.
    ASAN_POISON_MEMORY_REGION(base_ + at + bytes, whole - bytes);
    protect(open_ > 0);
    return base_ + at;
  }
  void free(void* memory) {
    const std::lock_guard lock(mutex_);
    const auto block = blocks_.find(static_cast<size_t>(static_cast<std::byte*>(memory) - base_));
    if (block == blocks_.end()) std::abort();
    ASAN_POISON_MEMORY_REGION(memory, block->second);
    blocks_.erase(block);
  }
  void open() {
    const std::lock_guard lock(mutex_);
    if (open_++ == 0) protect(true);
  }
  void close() {
    const std::lock_guard lock(mutex_);
    if (--open_ == 0) protect(false);
  }

 private:
  Region()
      : base_(static_cast<std::byte*>(
            mmap(nullptr, kWhole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {}
  void protect(bool open) const {
    if (mprotect(base_, used_, open ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) std::abort();
  }

  std::byte* base_;
  std::mutex mutex_;
  std::map<size_t, size_t> blocks_;
  size_t used_ = 0;
  int open_ = 0;
};

}  // namespace

OpenMemory::OpenMemory() { Region::get().open(); }
OpenMemory::~OpenMemory() { Region::get().close(); }

void* allocate_device_memory(size_t bytes) { return Region::get().allocate(bytes); }
void free_device_memory(void* memory) { Region::get().free(memory); }

}  // namespace telar::test
