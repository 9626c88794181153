#pragma once

#include <driver_types.h>

#include <cstddef>
#include <cstdint>

#include "telar/core/dtype.h"

// Loops of ours (see launch.h): each function tells a stream to do it. Types are f32 and bf16; another is an
// error (cudaErrorInvalidValue). Sums are in f32.
namespace telar::cuda {

/// A step down, or to the right, of windows over the pixels of x: [images, channels, height, width], or,
/// channels last, [images, height, width, channels], and y in the same layout.
struct PoolingAxis {
  int64_t size = 1;     ///< of x
  int64_t windows = 1;  ///< size of y
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t padding = 0;
};
struct Pooling {
  int64_t images = 0;
  int64_t channels = 0;
  PoolingAxis down;
  PoolingAxis right;
  bool last = false;  ///< channels
};

/// Bytes that tell, for each value of y, which value of its window has won.
size_t winner_bytes(const Pooling& of);

/// y: the largest of each window, the first one of those that are equal; NaN when there is one. `winners` may
/// be null.
cudaError_t max_pool(const void* x, DType dtype, const Pooling& of, void* y, void* winners,
                     cudaStream_t stream);
/// dx: of each value of x the dy of the windows that it has won.
cudaError_t max_pool_backward(const void* dy, const void* winners, DType dtype, const Pooling& of, void* dx,
                              cudaStream_t stream);

/// y: Σ / (kernel · kernel) of each window; padding counts as zeros.
cudaError_t average_pool(const void* x, DType dtype, const Pooling& of, void* y, cudaStream_t stream);
/// dx: of each value of x the sum of dy / (kernel · kernel) of its windows.
cudaError_t average_pool_backward(const void* dy, DType dtype, const Pooling& of, void* dx,
                                  cudaStream_t stream);

}  // namespace telar::cuda
