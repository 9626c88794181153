#pragma once

#include <driver_types.h>

#include <cstdint>

#include "telar/core/dtype.h"
#include "telar/device/cuda/loops/walk.h"

// Loops of ours (see launch.h): each function tells a stream to do it. Types are f32 and bf16, computed in
// f32; another is an error (cudaErrorInvalidValue).
namespace telar::cuda {

enum class Arithmetic : uint8_t { add, multiply };

/// What is computed of two numbers; with `relu` max(0, …), of which NaN stays one.
struct Combination {
  Arithmetic operation = Arithmetic::add;
  bool relu = false;
};

/// y[i] = a[i] ⊕ b[i]; y may be a or b.
cudaError_t combine(Combination combination, const void* a, const void* b, void* y, DType dtype,
                    int64_t count, cudaStream_t stream);

/// y[i] = a[…] ⊕ b[…] for every i of a walk over a and b, whose strides may be 0. y may be a when a is walked
/// through as it lies.
cudaError_t combine_walked(Combination combination, const void* a, const void* b, void* y, DType dtype,
                           const LongWalk<2>& walk, cudaStream_t stream);

/// y[i] = factor · x[…] for every i of a walk over x.
cudaError_t spread(const void* x, float factor, void* y, DType dtype, const LongWalk<1>& walk,
                   cudaStream_t stream);

}  // namespace telar::cuda
