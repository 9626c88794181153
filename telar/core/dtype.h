#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace telar {

/// Element types of tensors.
enum class DType : uint8_t {
  f32,   ///< IEEE single precision: parameters, gradients, optimizer state, losses
  bf16,  ///< bfloat16: compute type of activations and weights under `precision: bf16`
  i32,   ///< labels, token ids, sample ids
  /// a device's private workspace (pooling indices, ReLU masks, recurrent state); only the device knows its
  /// layout
  opaque
};

/// Bytes of one element; 0 for `opaque`.
size_t size_of(DType dtype);

/// "f32", "bf16", "i32", "opaque".
std::string_view name_of(DType dtype);

}  // namespace telar
