#include "telar/device/cuda/loops/math.h"

#include <cmath>

#include "telar/device/cuda/loops/launch.h"

namespace telar::cuda {

cudaError_t exponentials(const float* x, float* y, int64_t count, cudaStream_t stream) {
  return for_each(count, stream, [=] TELAR_GPU(int64_t i) { y[i] = expf(x[i]); });
}

cudaError_t logarithms(const float* x, float* y, int64_t count, cudaStream_t stream) {
  return for_each(count, stream, [=] TELAR_GPU(int64_t i) { y[i] = logf(x[i]); });
}

cudaError_t sines(const float* x, float* y, int64_t count, cudaStream_t stream) {
  return for_each(count, stream, [=] TELAR_GPU(int64_t i) { y[i] = sinf(x[i]); });
}

cudaError_t cosines(const float* x, float* y, int64_t count, cudaStream_t stream) {
  return for_each(count, stream, [=] TELAR_GPU(int64_t i) { y[i] = cosf(x[i]); });
}

cudaError_t arctangents(const float* x, float* y, int64_t count, cudaStream_t stream) {
  return for_each(count, stream, [=] TELAR_GPU(int64_t i) { y[i] = atanf(x[i]); });
}

cudaError_t error_functions(const float* x, float* y, int64_t count, cudaStream_t stream) {
  return for_each(count, stream, [=] TELAR_GPU(int64_t i) { y[i] = erff(x[i]); });
}

cudaError_t logarithms_of_one_more(const float* x, float* y, int64_t count, cudaStream_t stream) {
  return for_each(count, stream, [=] TELAR_GPU(int64_t i) { y[i] = log1pf(x[i]); });
}

cudaError_t exponentials_less_one(const float* x, float* y, int64_t count, cudaStream_t stream) {
  return for_each(count, stream, [=] TELAR_GPU(int64_t i) { y[i] = expm1f(x[i]); });
}

cudaError_t floors(const float* x, float* y, int64_t count, cudaStream_t stream) {
  return for_each(count, stream, [=] TELAR_GPU(int64_t i) { y[i] = floorf(x[i]); });
}

cudaError_t rounded(const float* x, float* y, int64_t count, cudaStream_t stream) {
  return for_each(count, stream, [=] TELAR_GPU(int64_t i) { y[i] = rintf(x[i]); });
}

cudaError_t powers(const float* x, float exponent, float* y, int64_t count, cudaStream_t stream) {
  if (exponent == 0.5F)  // C's pow has a root of -infinity
    return for_each(count, stream, [=] TELAR_GPU(int64_t i) { y[i] = sqrtf(x[i]); });
  if (exponent == -0.5F)
    return for_each(count, stream, [=] TELAR_GPU(int64_t i) { y[i] = 1.0F / sqrtf(x[i]); });
  return for_each(count, stream, [=] TELAR_GPU(int64_t i) { y[i] = powf(x[i], exponent); });
}

cudaError_t clamped(const float* x, float least, float most, float* y, int64_t count, cudaStream_t stream) {
  return for_each(count, stream, [=] TELAR_GPU(int64_t i) {
    const float low = x[i] < least ? least : x[i];  // keeps NaN
    y[i] = low > most ? most : low;
  });
}

cudaError_t are_within(const float* x, float least, float most, float* y, int64_t count,
                       cudaStream_t stream) {
  return for_each(count, stream,
                  [=] TELAR_GPU(int64_t i) { y[i] = x[i] >= least && x[i] <= most ? 1.0F : 0.0F; });
}

}  // namespace telar::cuda
