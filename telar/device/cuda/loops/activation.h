#pragma once

#include <driver_types.h>

#include <cstdint>

#include "telar/core/dtype.h"

// GPU loops (see launch.h). Each function enqueues its work on a stream. Types are f32 and bf16; others are
// an error (cudaErrorInvalidValue).
namespace telar::cuda {

enum class Activation : uint8_t { relu, gelu, sigmoid, tanh };

/// y[i] = f(x[i]); y may be x.
cudaError_t activate(Activation f, const void* x, void* y, DType dtype, int64_t count, cudaStream_t stream);

/// dx[i] = dy[i] · f'(…), computed from data[i]: the input of gelu, the output of the others. Where a ReLU's
/// output is 0, dx is 0 even if dy is NaN. dx may be dy.
cudaError_t activate_backward(Activation f, const void* dy, const void* data, void* dx, DType dtype,
                              int64_t count, cudaStream_t stream);

/// y[i] = factor · x[i]; y may be x.
cudaError_t scale_values(const void* x, float factor, void* y, DType dtype, int64_t count,
                         cudaStream_t stream);

}  // namespace telar::cuda
