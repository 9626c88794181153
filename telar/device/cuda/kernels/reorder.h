#pragma once

#include "telar/device/cuda/lowering.h"

namespace telar::cuda {

/// What brings a value, f32 or bf16 [N, C, H, W], from the other layout into `to`. Pointers: from, to.
Enqueue reorder(const Gpu& gpu, const TensorType& type, Layout to);

/// What brings a value into another type, as it lies. Pointers: from, to.
Enqueue conversion(const Gpu& gpu, const TensorType& from, DType to);

/// What writes one number to all elements, f32. Pointer: to.
Enqueue filling(const Gpu& gpu, const TensorType& type, float value);

}  // namespace telar::cuda
