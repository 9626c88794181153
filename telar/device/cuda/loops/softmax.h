#pragma once

#include <driver_types.h>

#include <cstdint>

#include "telar/core/dtype.h"

// GPU loops (see launch.h). Each function enqueues its work on a stream. Types are f32 and bf16, computed in
// f32; others are an error (cudaErrorInvalidValue).
namespace telar::cuda {

/// `count` lines of `length` elements, which are `stride` apart. `stride` neighbouring lines are interleaved.
struct Lines {
  int64_t count = 1;
  int64_t length = 1;
  int64_t stride = 1;
};

/// y = eˣ / Σ eˣ over each line; y may be x.
cudaError_t softmax(const void* x, void* y, DType dtype, const Lines& lines, cudaStream_t stream);

/// dx = y · (dy − Σ dy · y) over each line; dx may be dy.
cudaError_t softmax_backward(const void* dy, const void* y, void* dx, DType dtype, const Lines& lines,
                             cudaStream_t stream);

}  // namespace telar::cuda
