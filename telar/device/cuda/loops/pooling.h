#pragma once

#include <driver_types.h>

#include <cstddef>
#include <cstdint>

#include "telar/core/dtype.h"

// GPU loops (see launch.h). Each function enqueues its work on a stream. Types are f32 and bf16; others are
// an error (cudaErrorInvalidValue). Sums are in f32.
namespace telar::cuda {

/// One axis, vertical or horizontal, of pooling windows over x: [images, channels, height, width] or, with
/// channels last, [images, height, width, channels]. y has the same layout.
struct PoolingAxis {
  int64_t size = 1;     ///< extent of x
  int64_t windows = 1;  ///< extent of y
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t padding = 0;
};
struct Pooling {
  int64_t images = 0;
  int64_t channels = 0;
  PoolingAxis down;
  PoolingAxis right;
  bool last = false;  ///< channels are last
};

/// Size in bytes of the array that stores, for each value of y, which value of its window is the maximum.
size_t winner_bytes(const Pooling& of);

/// y: the maximum of each window; NaN if the window contains one. Of equal values the first one is the
/// winner. `winners` may be null.
cudaError_t max_pool(const void* x, DType dtype, const Pooling& of, void* y, void* winners,
                     cudaStream_t stream);
/// dx: for each value of x, the sum of dy over the windows whose maximum it is.
cudaError_t max_pool_backward(const void* dy, const void* winners, DType dtype, const Pooling& of, void* dx,
                              cudaStream_t stream);

/// y: Σ / (kernel · kernel) of each window; padding counts as zeros.
cudaError_t average_pool(const void* x, DType dtype, const Pooling& of, void* y, cudaStream_t stream);
/// dx: for each value of x, the sum of dy / (kernel · kernel) over its windows.
cudaError_t average_pool_backward(const void* dy, DType dtype, const Pooling& of, void* dx,
                                  cudaStream_t stream);

}  // namespace telar::cuda
