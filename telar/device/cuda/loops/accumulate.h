#pragma once

#include <driver_types.h>

#include <cstdint>

// Loops of ours (see launch.h): each function tells a stream to do it.
namespace telar::cuda {

/// to[i] = factor · from[i], or, `adding`, += it. f32.
cudaError_t accumulate_scaled(float* to, const float* from, int64_t count, float factor, bool adding,
                              cudaStream_t stream);

}  // namespace telar::cuda
