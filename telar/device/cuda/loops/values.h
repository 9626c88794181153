#pragma once

#include <driver_types.h>

#include <cstdint>

#include "telar/core/dtype.h"

// GPU loops (see launch.h). Each function enqueues its work on a stream. Types are f32 and bf16; others are
// an error (cudaErrorInvalidValue).
namespace telar::cuda {

/// y[i] = x[i], converted to another type; bf16 is rounded to nearest even.
cudaError_t convert_values(const void* x, DType from, void* y, DType to, int64_t count, cudaStream_t stream);

/// Transposes a stack of `count` matrices of `rows` × `columns`.
cudaError_t transpose_stack(const void* x, void* y, DType dtype, int64_t count, int64_t rows, int64_t columns,
                            cudaStream_t stream);

/// Size of the memory for sum_values besides its result, in f32 numbers.
inline constexpr int64_t kMostPieces = 1024;
/// y[0] = Σ x[i] in x's type, summed in f32, always in the same order.
cudaError_t sum_values(const void* x, DType dtype, int64_t count, float* pieces, void* y,
                       cudaStream_t stream);

}  // namespace telar::cuda
