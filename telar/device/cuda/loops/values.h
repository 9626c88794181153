#pragma once

#include <driver_types.h>

#include <cstdint>

#include "telar/core/dtype.h"

// Loops of ours (see launch.h): each function tells a stream to do it. Types are f32 and bf16; another is an
// error (cudaErrorInvalidValue).
namespace telar::cuda {

/// y[i] = x[i], in another type; bf16 is rounded to nearest even.
cudaError_t convert_values(const void* x, DType from, void* y, DType to, int64_t count, cudaStream_t stream);

/// Transposes a stack of `count` matrices of `rows` × `columns`.
cudaError_t transpose_stack(const void* x, void* y, DType dtype, int64_t count, int64_t rows, int64_t columns,
                            cudaStream_t stream);

/// Numbers of the memory that sum_values needs beside its result, f32.
inline constexpr int64_t kMostPieces = 1024;
/// y[0] = Σ x[i] in x's type, summed in f32, in the same order every time.
cudaError_t sum_values(const void* x, DType dtype, int64_t count, float* pieces, void* y,
                       cudaStream_t stream);

}  // namespace telar::cuda
