#pragma once

#include <driver_types.h>

#include <cstdint>

// GPU loops (see launch.h). Each function enqueues its work on a stream.
namespace telar::cuda {

/// y[i] = x[i] as an integer, halves to even ones; −2³¹ for what i32 cannot represent
cudaError_t to_indices(const float* x, int32_t* y, int64_t count, cudaStream_t stream);
/// y[i] = x[i] as a number
cudaError_t to_numbers(const int32_t* x, float* y, int64_t count, cudaStream_t stream);

}  // namespace telar::cuda
