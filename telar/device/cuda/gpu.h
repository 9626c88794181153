#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "telar/device/cuda/choices.h"

namespace telar::cuda {

class BatchNormPlans;
class Convolution;
class Event;

/// The number of GPUs, or the reason why there are none.
struct Count {
  int gpus = 0;
  std::string none;  ///< "no GPU: …", without a full stop; empty when there are GPUs
};
Count count_gpus();

/// A GPU with its streams and library handles. All work runs in order on one stream, except asynchronous
/// copies. Not thread-safe.
class Gpu {
 public:
  /// Throws Error (user) when there is no such GPU, Error (run) when it cannot be used.
  explicit Gpu(int number);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  /// "cuda:0".
  std::string name() const;
  /// 32 hexadecimal digits, the same in every process, even if the processes number GPUs differently.
  const std::string& identity() const { return identity_; }
  /// Makes this the current GPU of the calling thread. Required before any CUDA call.
  void use() const;
  /// The same, for destructors: ignores errors, which another call has reported.
  void use_at_last() const noexcept;
  /// Waits until the stream is empty, another stream of this GPU is empty, or the event is reached. Throws
  /// Error (run) when earlier work has failed, and whatever the watch function throws.
  void wait() const { wait(stream_); }
  void wait(cudaStream_t stream) const;
  void wait(const Event& event) const;
  /// use_at_last() and wait(), for destructors before they free memory. Freeing blocks, too, but inside CUDA,
  /// where the watch function is not called.
  void wait_at_last() const noexcept;
  /// Sets the watch function. The thread that waits for this GPU calls it repeatedly. It checks the peers
  /// that this GPU's work depends on. When one has failed, it ends the work that waits for that peer, and
  /// throws. Null: no checks.
  void watch(std::function<void()> watch) { watch_ = std::move(watch); }
  /// Copies to host memory, pinned or not, and waits.
  void copy_out(const std::byte* memory, std::span<std::byte> host) const;
  /// Copies from host memory, pinned or not, and waits.
  void copy_in(std::span<const std::byte> host, std::byte* memory) const;

  cudaStream_t stream() const { return stream_; }
  /// Streams for copies to the GPU (copies) and from it (returns) while stream() computes.
  cudaStream_t copies() const { return copies_; }
  cudaStream_t returns() const { return returns_; }
  cublasLtHandle_t products() const { return products_; }
  /// Created at first use: cuDNN's libraries take a while to load.
  cudnnHandle_t convolutions();
  /// The algorithms chosen on GPUs of this model.
  Choices& choices() { return *choices_; }
  /// The convolutions planned so far, by description: planning takes long, and layers repeat.
  std::map<std::string, std::shared_ptr<Convolution>>& known_convolutions() { return known_convolutions_; }
  std::map<std::string, std::shared_ptr<BatchNormPlans>>& known_batch_norms() { return known_batch_norms_; }

 private:
  void release();
  template <typename Done>
  void look_until(const Done& done) const;

  int number_;
  std::string identity_;
  std::function<void()> watch_;
  cudaStream_t stream_ = nullptr;
  cudaStream_t copies_ = nullptr;
  cudaStream_t returns_ = nullptr;
  cublasLtHandle_t products_ = nullptr;
  cudnnHandle_t convolutions_ = nullptr;
  std::optional<Choices> choices_;
  std::map<std::string, std::shared_ptr<Convolution>> known_convolutions_;
  std::map<std::string, std::shared_ptr<BatchNormPlans>> known_batch_norms_;
};

/// Memory of the current GPU, aligned to kMemoryAlignment, zeroed on the GPU's stream.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  /// When there is not enough memory, throws Error (run) with the size and `what`, the purpose.
  DeviceMemory(const Gpu& gpu, size_t bytes, const std::string& what = "computed values");
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

/// Host memory for asynchronous copies from and to a GPU.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  /// Throws Error (run) with the size when there is not enough memory.
  PinnedMemory(const Gpu& gpu, size_t bytes);
  ~PinnedMemory();
  PinnedMemory(PinnedMemory&& other) noexcept;
  PinnedMemory& operator=(PinnedMemory&& other) noexcept;
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// A position in a stream's work.
class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(cudaStream_t stream);
  /// hold() makes later work of the stream wait for the event, wait() the host. Both do nothing if the event
  /// was never recorded.
  void hold(cudaStream_t stream) const;
  void wait() const;
  /// Throws Error (run) when work before the event has failed.
  bool reached() const;

 private:
  cudaEvent_t event_ = nullptr;
  bool recorded_ = false;
};

}  // namespace telar::cuda
