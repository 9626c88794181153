#pragma once

#include <functional>

#include "telar/device/cuda/gpu.h"

namespace telar::cuda {

/// Work that is put on the stream as a whole, as often as wanted: a CUDA graph. Its memory must stay where it
/// was.
class Recording {
 public:
  /// Keeps what `enqueue` puts on the stream of the GPU; nothing of it is done. Throws Error (run) where that
  /// cannot be recorded; the stream is then as it was.
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
