#pragma once

#include <driver_types.h>

#include <cstdint>

#include "telar/core/dtype.h"

// GPU loops (see launch.h). Each function enqueues its work on a stream. Types are f32 and bf16; others are
// an error (cudaErrorInvalidValue).
namespace telar::cuda {

/// Size of the memory `pieces` for sum_channels, in f32 numbers.
int64_t channel_sum_pieces(int64_t images, int64_t channels, int64_t pixels);

/// sums[c] = Σ x over images and pixels, f32. The order of summation depends on the extents only. x: [images,
/// channels, pixels] or, with channels last, [images, pixels, channels]; a matrix [N, C] has one pixel. x
/// begins at a multiple of 16 bytes.
cudaError_t sum_channels(const void* x, DType dtype, int64_t images, int64_t channels, int64_t pixels,
                         bool channels_last, float* pieces, float* sums, cudaStream_t stream);

}  // namespace telar::cuda
