#pragma once

#include "telar/device/cuda/lowering.h"

namespace telar::cuda {

/// Converts a value, f32 or bf16 [N, C, H, W], from the other layout to `to`. Pointers: from, to.
Enqueue reorder(const Gpu& gpu, const TensorType& type, Layout to);

/// Converts a value to another type in its layout. Pointers: from, to.
Enqueue conversion(const Gpu& gpu, const TensorType& from, DType to);

/// Writes `value` to all elements, f32. Pointer: to.
Enqueue filling(const Gpu& gpu, const TensorType& type, float value);

}  // namespace telar::cuda
