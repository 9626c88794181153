#include "telar/comm/store/memory_region.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace telar {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

MemoryRegion map(int descriptor, size_t bytes) {
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (mapped != MAP_FAILED) return {.descriptor = descriptor, .mapped = mapped, .bytes = bytes};
  close(descriptor);
  return {};
}

}  // namespace

MemoryRegion MemoryRegion::create(size_t bytes) {
  const int descriptor = memfd_create("telar-store", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) return {};
  if (ftruncate(descriptor, static_cast<off_t>(bytes)) == 0 && fcntl(descriptor, F_ADD_SEALS, kSeals) == 0)
    return map(descriptor, bytes);
  close(descriptor);
  return {};
}

MemoryRegion MemoryRegion::open(uint64_t process, uint64_t theirs, size_t bytes) {
  // O_NONBLOCK: whatever this file is, opening it must not wait.
  const int descriptor = ::open(fmt::format("/proc/{}/fd/{}", process, theirs).c_str(),
                                O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) return {};
  // Only a memfd has seals. A sealed one cannot shrink while it is in use.
  struct stat status {};
  if (fcntl(descriptor, F_GET_SEALS) == kSeals && fstat(descriptor, &status) == 0 &&
      status.st_size == static_cast<off_t>(bytes))
    return map(descriptor, bytes);
  close(descriptor);
  return {};
}

bool MemoryRegion::allocate(size_t first) const {
  return posix_fallocate(descriptor, 0, static_cast<off_t>(first)) == 0;
}

void MemoryRegion::release() const {
  if (mapped == nullptr) return;
  munmap(mapped, bytes);
  close(descriptor);
}

}  // namespace telar
