#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "telar/device/cuda/gpu.h"

namespace telar::cuda {

/// The inputs of a graph on their way to the GPU: through pinned memory, all in one copy, on a stream of
/// their own, so that a batch comes while the step before computes. There are two batch buffers, used in
/// turns; the second is made when inputs are set for the second time.
class Inputs {
 public:
  static constexpr size_t kBuffers = 2;

  /// `bytes` of each input.
  Inputs(Gpu& gpu, const std::vector<size_t>& bytes);

  /// Takes a copy of an input's values, for the runs that follow; those that are not set keep theirs.
  void set(size_t input, const void* memory);
  /// Sends what was set since the last call, and makes the stream of the GPU wait for it. Which buffer holds
  /// the values now.
  size_t send();
  /// The work that reads this buffer has been put on the stream.
  void read(size_t buffer);

  /// Where an input lies on the GPU; null in a buffer that there is not yet.
  std::byte* memory(size_t buffer, size_t input) const;

 private:
  struct BatchBuffer {
    PinnedMemory host;
    DeviceMemory device;
    Event sent;  ///< the copy from `host`
    Event free;  ///< the work that read `device`
  };
  void make(BatchBuffer& buffer) const;

  Gpu& gpu_;
  std::vector<size_t> offsets_;
  std::vector<size_t> bytes_;
  size_t whole_ = 0;
  std::array<BatchBuffer, kBuffers> buffers_;
  size_t current_ = 0;
  bool sent_once_ = false;
  std::vector<bool> set_;  ///< since the last send()
};

}  // namespace telar::cuda
