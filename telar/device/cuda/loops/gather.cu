#include "telar/device/cuda/loops/gather.h"

#include <cmath>

#include "telar/device/cuda/loops/launch.h"

namespace telar::cuda {

namespace {

/// The index of (a, m, b); −1 if it is out of range.
TELAR_GPU int64_t index_of(const int32_t* indices, const Moves& of, int64_t a, int64_t m, int64_t b) {
  const int64_t row = a % of.outer_indices * of.items + m;
  const int64_t k = indices[of.one_for_inner ? row : row * of.inner + b];
  return k >= 0 && k < of.extent ? k : -1;
}

}  // namespace

cudaError_t gather(const float* x, const int32_t* indices, float* y, const Moves& of, cudaStream_t stream) {
  return for_each(of.outer * of.items * of.inner, stream, [=] TELAR_GPU(int64_t i) {
    const int64_t b = i % of.inner;
    const int64_t m = i / of.inner % of.items;
    const int64_t a = i / of.inner / of.items;
    const int64_t k = index_of(indices, of, a, m, b);
    y[i] = k < 0 ? NAN : x[(a * of.extent + k) * of.inner + b];
  });
}

/// One thread adds all items of its places a and b, so no two threads change the same sum, and its order is
/// always the same.
cudaError_t scatter_add(const int32_t* indices, const float* updates, float* y, const Moves& of,
                        cudaStream_t stream) {
  const size_t bytes = static_cast<size_t>(of.outer * of.extent * of.inner) * sizeof(float);
  const cudaError_t status = cudaMemsetAsync(y, 0, bytes, stream);
  if (status != cudaSuccess) return status;
  return for_each(of.outer * of.inner, stream, [=] TELAR_GPU(int64_t i) {
    const int64_t b = i % of.inner;
    const int64_t a = i / of.inner;
    for (int64_t m = 0; m < of.items; ++m) {
      const int64_t k = index_of(indices, of, a, m, b);
      if (k >= 0) y[(a * of.extent + k) * of.inner + b] += updates[(a * of.items + m) * of.inner + b];
    }
  });
}

}  // namespace telar::cuda
