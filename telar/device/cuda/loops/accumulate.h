#pragma once

#include <driver_types.h>

#include <cstdint>

// GPU loops (see launch.h). Each function enqueues its work on a stream.
namespace telar::cuda {

/// to[i] = factor · from[i]; with `adding`: to[i] += factor · from[i]. f32.
cudaError_t accumulate_scaled(float* to, const float* from, int64_t count, float factor, bool adding,
                              cudaStream_t stream);

}  // namespace telar::cuda
