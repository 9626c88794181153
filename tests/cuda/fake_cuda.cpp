// Stands for CUDA's runtime: its memory is the host's, and what a stream is told is done at once.
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "cuda/fakes.h"

struct CUevent_st {
  std::chrono::steady_clock::time_point when;
};

namespace telar::test {

Fake& fake() {
  static Fake settings;
  return settings;
}

}  // namespace telar::test

using telar::test::fake;

extern "C" {

cudaError_t cudaDriverGetVersion(int* version) {
  *version = fake().driver;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = fake().gpus;
  return fake().gpus > 0 ? cudaSuccess : cudaErrorNoDevice;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int /*number*/) {
  std::strcpy(std::data(properties->name), "a fake");
  properties->totalGlobalMem = size_t{2} << 30;
  properties->major = 9;
  properties->multiProcessorCount = 3;
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t /*error*/) { return "CUDA's words"; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaSetDevice(int number) { return number < fake().gpus ? cudaSuccess : cudaErrorInvalidDevice; }

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  if (bytes > fake().memory) return cudaErrorMemoryAllocation;
  const size_t whole = (bytes + 255) / 256 * 256;
  *memory = std::aligned_alloc(256, whole);
  std::memset(*memory, 0xff, whole);  // NaN
  ++fake().blocks;
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  --fake().blocks;
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t /*stream*/) {
  std::memset(memory, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind /*kind*/,
                            cudaStream_t /*stream*/) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned /*flags*/) {
  *stream = nullptr;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t /*stream*/) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t /*stream*/) {
  ++fake().waits;
  return fake().failure;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t /*stream*/) {
  event->when = std::chrono::steady_clock::now();
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t /*event*/) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  *milliseconds = std::chrono::duration<float, std::milli>(end->when - begin->when).count();
  return cudaSuccess;
}

}  // extern "C"
