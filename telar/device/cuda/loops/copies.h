#pragma once

#include <driver_types.h>

#include <cstdint>

#include "telar/core/dtype.h"
#include "telar/device/cuda/loops/walk.h"

// GPU loops (see launch.h). Each function enqueues its work on a stream. Types are f32, bf16 and i32;
// others are an error (cudaErrorInvalidValue).
namespace telar::cuda {

/// Pieces of `length` elements, one in each row of two arrays. Their rows begin `from_pitch` and `to_pitch`
/// elements apart.
struct RowPieces {
  int64_t rows = 1;
  int64_t length = 1;
  int64_t from_pitch = 1;
  int64_t to_pitch = 1;
};

/// Copies `length` elements of each row, from element `from_begin` on, to `to_begin`.
cudaError_t copy_pieces(const RowPieces& pieces, const void* from, int64_t from_begin, void* to,
                        int64_t to_begin, DType dtype, cudaStream_t stream);

/// y[i] = x[…] for every i of a walk over x.
cudaError_t copy_walked(const void* x, void* y, DType dtype, const LongWalk<1>& walk, cudaStream_t stream);

/// y[i] = value, f32.
cudaError_t fill(float* y, int64_t count, float value, cudaStream_t stream);

}  // namespace telar::cuda
