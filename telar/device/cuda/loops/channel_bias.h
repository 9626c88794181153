#pragma once

#include <driver_types.h>

#include <cstdint>

#include "telar/core/dtype.h"

// Loops of ours (see launch.h): each function tells a stream to do it. Types are f32 and bf16; another is an
// error (cudaErrorInvalidValue).
namespace telar::cuda {

/// y += bias of the channel, and then, with `relu`, max(0, y), where NaN stays one. y: `dtype` [images,
/// channels, pixels], or, channels last, [images, pixels, channels], at a multiple of 16 bytes; a matrix [N,
/// C] has one pixel. bias: `bias_type` [channels].
cudaError_t add_channel_bias(void* y, DType dtype, const void* bias, DType bias_type, bool relu,
                             int64_t images, int64_t channels, int64_t pixels, bool channels_last,
                             cudaStream_t stream);

}  // namespace telar::cuda
