#include "telar/device/cuda/loops/whole_numbers.h"

#include <climits>
#include <cmath>

#include "telar/device/cuda/loops/launch.h"

namespace telar::cuda {

cudaError_t to_indices(const float* x, int32_t* y, int64_t count, cudaStream_t stream) {
  constexpr float kBeyond = 2147483648.0F;  // 2³¹; no f32 lies between it and the greatest i32
  return for_each(count, stream, [=] TELAR_GPU(int64_t i) {
    const bool fits = x[i] >= -kBeyond && x[i] < kBeyond;
    y[i] = fits ? static_cast<int32_t>(rintf(x[i])) : INT_MIN;
  });
}

cudaError_t to_numbers(const int32_t* x, float* y, int64_t count, cudaStream_t stream) {
  return for_each(count, stream, [=] TELAR_GPU(int64_t i) { y[i] = static_cast<float>(x[i]); });
}

}  // namespace telar::cuda
