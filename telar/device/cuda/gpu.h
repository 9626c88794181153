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

/// Why there is no GPU for CUDA, or how many there are.
struct Count {
  int gpus = 0;
  std::string none;  ///< "no GPU: …", without a full stop; empty when there are some
};
Count count_gpus();

/// A GPU, one stream of it on which everything happens in order but the copies that are made beside it, and
/// the handles of the libraries. Not for two threads at once.
class Gpu {
 public:
  /// Throws Error (user) when there is no such GPU, Error (run) when it cannot be used.
  explicit Gpu(int number);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  /// "cuda:0".
  std::string name() const;
  /// The same in every process, which may count otherwise: 32 hexadecimal digits.
  const std::string& identity() const { return identity_; }
  /// Makes it the calling thread's: before any call of CUDA.
  void use() const;
  /// The same, for destructors: where it cannot be, another call has told it.
  void use_at_last() const noexcept;
  /// Until the stream is empty, or another stream of this GPU, or the event is reached. Throws Error (run)
  /// when something before has failed, and what the watch throws.
  void wait() const { wait(stream_); }
  void wait(cudaStream_t stream) const;
  void wait(const Event& event) const;
  /// As use_at_last() and wait(), before memory is given back: CUDA waits in that, too, where nobody looks.
  void wait_at_last() const noexcept;
  /// Called again and again while the host waits, on the thread that waits: for what lets this GPU wait for
  /// others. When one of them has failed it ends what the GPU waits for, and throws. Null: nobody looks.
  void watch(std::function<void()> watch) { watch_ = std::move(watch); }
  /// To the host's memory, pinned or not, and waits.
  void copy_out(const std::byte* memory, std::span<std::byte> host) const;
  /// The other way, likewise.
  void copy_in(std::span<const std::byte> host, std::byte* memory) const;

  cudaStream_t stream() const { return stream_; }
  /// For copies to and from the GPU while the other stream computes.
  cudaStream_t copies() const { return copies_; }
  cudaStream_t returns() const { return returns_; }
  cublasLtHandle_t products() const { return products_; }
  /// Made when it is first asked for: cuDNN's own libraries take a while to load.
  cudnnHandle_t convolutions();
  /// Of algorithms, on GPUs of this kind.
  Choices& choices() { return *choices_; }
  /// What was described to cuDNN so far, in words: to plan it takes long, and layers repeat.
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

/// Memory of the GPU that is in use, aligned to kMemoryAlignment, zeroed on its stream.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  /// Throws Error (run) when it is not to be had, with the size that was wanted and `what` for.
  DeviceMemory(const Gpu& gpu, size_t bytes, const std::string& what = "what is computed");
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

/// Memory of the host that a GPU copies from and to while the host goes on.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  /// Throws Error (run) when it is not to be had, with the size that was wanted.
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

/// A place in the order of a stream's work.
class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(cudaStream_t stream);
  /// The stream's following work waits until it is reached, or the host does, or nobody. Nothing when it was
  /// never recorded.
  void hold(cudaStream_t stream) const;
  void wait() const;
  /// Throws Error (run) when something before it has failed.
  bool reached() const;

 private:
  cudaEvent_t event_ = nullptr;
  bool recorded_ = false;
};

}  // namespace telar::cuda
