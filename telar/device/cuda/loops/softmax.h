#pragma once

#include <driver_types.h>

#include <cstdint>

#include "telar/core/dtype.h"

// Loops of ours (see launch.h): each function tells a stream to do it. Types are f32 and bf16, computed in
// f32; another is an error (cudaErrorInvalidValue).
namespace telar::cuda {

/// `count` lines of `length` elements that lie `stride` apart; the lines of neighbours lie beside each other,
/// `stride` of them.
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
