#pragma once

#include <driver_types.h>

#include <cstdint>

#include "telar/core/dtype.h"

// Loops of ours (see launch.h): each function tells a stream to do it. Types are f32 and bf16; another is an
// error (cudaErrorInvalidValue).
namespace telar::cuda {

/// Numbers (f32) of the memory `pieces` that sum_channels needs.
int64_t channel_sum_pieces(int64_t images, int64_t channels, int64_t pixels);

/// sums[c] = Σ x over images and pixels, f32, in an order that depends on the extents alone. x: [images,
/// channels, pixels], or, channels last, [images, pixels, channels]; a matrix [N, C] has one pixel. x lies at
/// a multiple of 16 bytes.
cudaError_t sum_channels(const void* x, DType dtype, int64_t images, int64_t channels, int64_t pixels,
                         bool channels_last, float* pieces, float* sums, cudaStream_t stream);

}  // namespace telar::cuda
