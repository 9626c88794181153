// A fake CUDA runtime. Its memory is host memory; streams are in fake_streams.cpp.
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "cuda/fakes.h"

namespace telar::test {

namespace {

thread_local cudaError_t last_error = cudaSuccess;
thread_local int chosen_gpu = 0;

std::mutex& counting() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

Fake& fake() {
  static Fake settings;
  return settings;
}

int current_gpu() { return chosen_gpu; }
void count(int Fake::*what, int more) {
  const std::lock_guard lock(counting());
  fake().*what += more;
}
void note_executed(const std::string& engine) {
  const std::lock_guard lock(counting());
  fake().executed.insert(engine);
}

cudaError_t failed(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

}  // namespace telar::test

using telar::test::failed;
using telar::test::fake;
using telar::test::forbid_recording;
using telar::test::on_stream;

namespace {

/// Host memory that CUDA copies asynchronously. Replicas in several threads use it.
class Pinned {
 public:
  static Pinned& get() {
    static Pinned pinned;
    return pinned;
  }
  void add(const void* memory, size_t bytes) {
    const std::lock_guard lock(mutex_);
    blocks_[memory] = bytes;
  }
  void remove(const void* memory) {
    const std::lock_guard lock(mutex_);
    blocks_.erase(memory);
  }
  bool has(const void* memory) {
    const std::lock_guard lock(mutex_);
    const auto after = blocks_.upper_bound(memory);
    if (after == blocks_.begin()) return false;
    const auto& [begin, size] = *std::prev(after);
    return static_cast<const std::byte*>(memory) < static_cast<const std::byte*>(begin) + size;
  }

 private:
  std::mutex mutex_;
  std::map<const void*, size_t> blocks_;
};
bool is_pinned(const void* memory) { return Pinned::get().has(memory); }

}  // namespace

extern "C" {

/// For tests that load the module: its settings.
__attribute__((visibility("default"))) telar::test::Fake* telar_fake() { return &fake(); }

cudaError_t cudaDriverGetVersion(int* version) {
  *version = fake().driver;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = fake().gpus;
  return fake().gpus > 0 ? cudaSuccess : cudaErrorNoDevice;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int number) {
  properties->uuid.bytes[15] = static_cast<char>(0xa0 + fake().hidden_gpus + number);
  std::strcpy(std::data(properties->name), "a fake");
  properties->totalGlobalMem = size_t{2} << 30;
  properties->major = 9;
  properties->multiProcessorCount = 3;
  properties->l2CacheSize = 1 << 20;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute, int from, int to) {
  *value = from + to == 1 && (attribute == cudaDevP2PAttrAccessSupported || from == 0) ? 1 : 0;
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t /*error*/) { return "CUDA's words"; }
cudaError_t cudaGetLastError() { return std::exchange(telar::test::last_error, cudaSuccess); }
cudaError_t cudaSetDevice(int number) {
  telar::test::chosen_gpu = number;
  return failed(number < fake().gpus ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  forbid_recording();
  if (bytes > fake().memory) return failed(cudaErrorMemoryAllocation);
  *memory = telar::test::allocate_device_memory(bytes);
  telar::test::count(&telar::test::Fake::blocks);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* all) {
  *free = *all = fake().memory;
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  forbid_recording();
  telar::test::count(&telar::test::Fake::blocks, -1);
  telar::test::finish_all();  // cudaFree waits for work that uses the memory
  telar::test::free_device_memory(memory);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** memory, size_t bytes) {
  forbid_recording();
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  Pinned::get().add(*memory, bytes);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  forbid_recording();
  Pinned::get().remove(memory);
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaHostRegister(void* memory, size_t bytes, unsigned /*flags*/) {
  forbid_recording();
  if (!fake().pins) return failed(cudaErrorHostMemoryAlreadyRegistered);
  Pinned::get().add(memory, bytes);
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  *attributes = {};
  attributes->type = is_pinned(memory) ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* memory) {
  Pinned::get().remove(memory);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  on_stream(stream, [=] {
    if (bytes > 0) std::memset(memory, value, bytes);  // for 0 bytes, CUDA accepts any address but C does not
  });
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const auto copy = [=](const void* source) {
    if (bytes > 0) std::memcpy(to, source, bytes);
  };
  if (kind == cudaMemcpyHostToDevice && !is_pinned(from)) {
    forbid_recording();
    // Memory that is not pinned is read before this returns.
    const auto* bytes_of = static_cast<const std::byte*>(from);
    on_stream(stream, [=, kept = std::vector<std::byte>(bytes_of, bytes_of + bytes)] { copy(kept.data()); });
    return cudaSuccess;
  }
  on_stream(stream, [=] { copy(from); });
  if (kind == cudaMemcpyDeviceToHost && !is_pinned(to)) telar::test::finish(stream);
  return cudaSuccess;
}

}  // extern "C"
