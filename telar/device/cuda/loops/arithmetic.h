#pragma once

#include <driver_types.h>

#include <cstdint>

#include "telar/core/dtype.h"
#include "telar/device/cuda/loops/walk.h"

// GPU loops (see launch.h). Each function enqueues its work on a stream. Types are f32 and bf16, computed in
// f32; others are an error (cudaErrorInvalidValue).
namespace telar::cuda {

enum class Arithmetic : uint8_t { add, multiply };

/// The operation on two numbers; with `relu` followed by max(0, …), which keeps NaN.
struct Combination {
  Arithmetic operation = Arithmetic::add;
  bool relu = false;
};

/// y[i] = a[i] ⊕ b[i]; y may be a or b.
cudaError_t combine(Combination combination, const void* a, const void* b, void* y, DType dtype,
                    int64_t count, cudaStream_t stream);

/// y[i] = a[…] ⊕ b[…] for every i of a walk over a and b, whose strides may be 0. y may be a if the walk
/// visits a in storage order.
cudaError_t combine_walked(Combination combination, const void* a, const void* b, void* y, DType dtype,
                           const LongWalk<2>& walk, cudaStream_t stream);

/// y[i] = factor · x[…] for every i of a walk over x.
cudaError_t spread(const void* x, float factor, void* y, DType dtype, const LongWalk<1>& walk,
                   cudaStream_t stream);

}  // namespace telar::cuda
