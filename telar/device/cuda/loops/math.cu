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

cudaError_t powers(const float* x, float exponent, float* y, int64_t count, cudaStream_t stream) {
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
