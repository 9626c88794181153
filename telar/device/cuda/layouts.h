#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "telar/device/cuda/transposition.h"
#include "telar/graph/op.h"

namespace telar::cuda {

/// How a tensor lies in a GPU's memory.
enum class Layout : uint8_t {
  plain,         ///< row-major, as its shape says
  channels_last  ///< [N, C, H, W] stored as N, H, W, C: what cuDNN's convolutions on tensor cores are computed in
};

/// "plain", "channels last", and back. Throws Error (run) for another name.
std::string name_of(Layout layout);
Layout layout_named(const std::string& name);

/// Activations and workspaces begin at a multiple of this, as cuBLASLt demands of its workspace. Parameters
/// and gradients lie in arenas at multiples of 64 bytes (telar/device/layout.h).
inline constexpr size_t kMemoryAlignment = 256;
inline constexpr size_t align_up_memory(size_t bytes) {
  return (bytes + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment;
}

/// Bytes of a tensor, in any layout. Throws Error (run) for an opaque one.
size_t bytes_of(const TensorType& type);

/// What brings a tensor [N, C, H, W] from one layout into the other one, `to`. Throws Error (run) for another
/// rank.
Transposition transposition_to(Layout to, const Shape& shape);

/// Brings a tensor's elements, of `size` bytes each, from one layout into the other one, `to`, in the host's
/// memory.
void transpose(std::span<const std::byte> from, std::span<std::byte> into, const Shape& shape, Layout to,
               size_t size);

/// The values of a tensor (f32 or bf16) that lies in `memory` in this layout, row-major, f32. Throws Error
/// (run) for another type.
std::vector<float> canonical_values(std::span<const std::byte> memory, const TensorType& type, Layout layout);

}  // namespace telar::cuda
