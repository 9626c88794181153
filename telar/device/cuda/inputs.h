#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "telar/device/cuda/gpu.h"

namespace telar::cuda {

/// Transfers the inputs of a graph to the GPU, all in one copy from pinned memory. The copy runs on a
/// separate stream, so a batch arrives while the previous step computes. There are two batch buffers, used in
/// turn. The second is allocated when inputs are set for the second time.
class Inputs {
 public:
  static constexpr size_t kBuffers = 2;

  /// `bytes` contains the size of each input.
  Inputs(Gpu& gpu, const std::vector<size_t>& bytes);

  /// Copies an input's values to pinned memory, for the following runs. Inputs that are not set keep their
  /// values.
  void set(size_t input, const void* memory);
  /// Starts the copy of what was set since the last call, and makes the GPU's stream wait for it. Returns the
  /// index of the buffer that holds the values now.
  size_t send();
  /// Call this when the work that reads the buffer has been put on the stream.
  void read(size_t buffer);

  /// The address of an input on the GPU; null in a buffer that is not allocated yet.
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
