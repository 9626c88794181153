#pragma once

#include <driver_types.h>

#include <cstdint>

// GPU loops (see launch.h). Each function enqueues its work on a stream. x and y: f32; y may be x.
namespace telar::cuda {

/// y[i] = e^x[i]
cudaError_t exponentials(const float* x, float* y, int64_t count, cudaStream_t stream);
/// y[i] = log x[i]
cudaError_t logarithms(const float* x, float* y, int64_t count, cudaStream_t stream);
/// y[i] = sin x[i]
cudaError_t sines(const float* x, float* y, int64_t count, cudaStream_t stream);
/// y[i] = cos x[i]
cudaError_t cosines(const float* x, float* y, int64_t count, cudaStream_t stream);
/// y[i] = atan x[i]
cudaError_t arctangents(const float* x, float* y, int64_t count, cudaStream_t stream);
/// y[i] = erf x[i]
cudaError_t error_functions(const float* x, float* y, int64_t count, cudaStream_t stream);
/// y[i] = log(1 + x[i])
cudaError_t logarithms_of_one_more(const float* x, float* y, int64_t count, cudaStream_t stream);
/// y[i] = e^x[i] − 1
cudaError_t exponentials_less_one(const float* x, float* y, int64_t count, cudaStream_t stream);
/// y[i] = ⌊x[i]⌋
cudaError_t floors(const float* x, float* y, int64_t count, cudaStream_t stream);
/// y[i] = x[i] as an integer, halves to even ones
cudaError_t rounded(const float* x, float* y, int64_t count, cudaStream_t stream);
/// y[i] = x[i]^exponent
cudaError_t powers(const float* x, float exponent, float* y, int64_t count, cudaStream_t stream);
/// y[i] = min(max(x[i], least), most)
cudaError_t clamped(const float* x, float least, float most, float* y, int64_t count, cudaStream_t stream);
/// y[i] = 1 where least ≤ x[i] ≤ most, else 0
cudaError_t are_within(const float* x, float least, float most, float* y, int64_t count, cudaStream_t stream);

}  // namespace telar::cuda
