#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "telar/device/cuda/transposition.h"
#include "telar/graph/op.h"

namespace telar::cuda {

/// How a tensor is stored in GPU memory.
enum class Layout : uint8_t {
  plain,         ///< row-major, in the order of its shape
  channels_last  ///< [N, C, H, W] stored as N, H, W, C; used by cuDNN's convolutions on tensor cores
};

/// "plain", "channels last", and back. Throws Error (run) for an unknown name.
std::string name_of(Layout layout);
Layout layout_named(const std::string& name);

/// Alignment in bytes of activations and workspaces, as cuBLASLt requires for its workspace. Parameters and
/// gradients are in arenas at multiples of 64 bytes (telar/device/layout.h).
inline constexpr size_t kMemoryAlignment = 256;
inline constexpr size_t align_up_memory(size_t bytes) {
  return (bytes + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment;
}

/// Size of a tensor, the same in all layouts. Throws Error (run) for an opaque type.
size_t bytes_of(const TensorType& type);

/// The transposition that converts a tensor [N, C, H, W] from the other layout to `to`. Throws Error (run)
/// for another rank.
Transposition transposition_to(Layout to, const Shape& shape);

/// Converts a tensor in host memory, with elements of `size` bytes, from the other layout to `to`.
void transpose(std::span<const std::byte> from, std::span<std::byte> into, const Shape& shape, Layout to,
               size_t size);

/// The values of a tensor (f32 or bf16) that is stored in host memory in this layout: row-major, f32. Throws
/// Error (run) for another type.
std::vector<float> canonical_values(std::span<const std::byte> memory, const TensorType& type, Layout layout);

}  // namespace telar::cuda
