#pragma once

#include <functional>

#include "telar/device/cuda/gpu.h"

namespace telar::cuda {

/// A recorded sequence of GPU work (a CUDA graph) that can be put on the stream repeatedly. The memory that
/// it uses must stay allocated.
class Recording {
 public:
  /// Records what `enqueue` puts on the GPU's stream, without executing it. Throws Error (run) when something
  /// cannot be recorded; the stream is then unchanged.
  Recording(const Gpu& gpu, const std::function<void()>& enqueue);
  ~Recording();
  Recording(Recording&& other) noexcept;
  Recording& operator=(Recording&&) = delete;
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  void play(const Gpu& gpu) const;

 private:
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace telar::cuda
