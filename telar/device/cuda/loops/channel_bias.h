#pragma once

#include <driver_types.h>

#include <cstdint>

#include "telar/core/dtype.h"

// GPU loops (see launch.h). Each function enqueues its work on a stream. Types are f32 and bf16; others are
// an error (cudaErrorInvalidValue).
namespace telar::cuda {

/// y += bias of the channel; then, with `relu`, max(0, y), which keeps NaN. y: `dtype` [images, channels,
/// pixels] or, with channels last, [images, pixels, channels], at a multiple of 16 bytes; a matrix [N, C] has
/// one pixel. bias: `bias_type` [channels].
cudaError_t add_channel_bias(void* y, DType dtype, const void* bias, DType bias_type, bool relu,
                             int64_t images, int64_t channels, int64_t pixels, bool channels_last,
                             cudaStream_t stream);

}  // namespace telar::cuda
