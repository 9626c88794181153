#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <cstddef>
#include <string>

namespace telar::cuda {

/// Why there is no GPU for CUDA, or how many there are.
struct Count {
  int gpus = 0;
  std::string none;  ///< "no GPU: …", without a full stop; empty when there are some
};
Count count_gpus();

/// A GPU, one stream of it on which everything happens in order, and the handles of the libraries. Not for two threads at once.
class Gpu {
 public:
  /// Throws Error (user) when there is no such GPU, Error (run) when it cannot be used.
  explicit Gpu(int number);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  /// "cuda:0".
  std::string name() const;
  /// Makes it the calling thread's: before any call of CUDA.
  void use() const;
  /// Until the stream is empty. Throws Error (run) when something on it has failed.
  void wait() const;

  cudaStream_t stream() const { return stream_; }
  cublasLtHandle_t products() const { return products_; }
  /// Made when it is first asked for: cuDNN's own libraries take a while to load.
  cudnnHandle_t convolutions();

 private:
  int number_;
  cudaStream_t stream_ = nullptr;
  cublasLtHandle_t products_ = nullptr;
  cudnnHandle_t convolutions_ = nullptr;
};

/// Memory of the GPU that is in use, aligned to kMemoryAlignment, zeroed on its stream.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  /// Throws Error (run) when it is not to be had, with the size that was wanted.
  DeviceMemory(const Gpu& gpu, size_t bytes);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace telar::cuda
