#include "telar/device/cuda/loops/layer_norm.h"

#include <cmath>

#include "telar/device/cuda/loops/reduce_pieces.h"
#include "telar/device/cuda/loops/rows.h"

namespace telar::cuda {

namespace {

/// Of `count` numbers the mean and Σ (x − mean)²: combined as by Chan, Golub and LeVeque (1979), which does not cancel.
struct Moments {
  float count;
  float mean;
  float squares;
};

struct CombineMoments {
  TELAR_GPU Moments operator()(const Moments& a, const Moments& b) const {
    if (b.count == 0) return a;
    const float count = a.count + b.count;
    const float share = b.count / count;
    const float apart = b.mean - a.mean;
    return {count, a.mean + apart * share, a.squares + b.squares + apart * apart * a.count * share};
  }
};

struct TwoSums {
  float first;
  float second;
};

struct AddBoth {
  TELAR_GPU TwoSums operator()(const TwoSums& a, const TwoSums& b) const {
    return {a.first + b.first, a.second + b.second};
  }
};

template <typename T>
cudaError_t forward_typed(const LayerNorm& norm, const void* x, const float* gamma, const float* beta,
                          void* y, float* mean, float* variance, cudaStream_t stream) {
  const auto* from = static_cast<const T*>(x);
  auto* to = static_cast<T*>(y);
  const int64_t features = norm.features;
  const float epsilon = norm.epsilon;
  return map_rows(
      norm.rows, features, false, stream, Moments{0, 0, 0},
      [=] TELAR_GPU(int64_t row, int64_t i) {
        return Moments{1, to_float(from[row * features + i]), 0};
      },
      CombineMoments(),
      [=] TELAR_GPU(int64_t row, int64_t i, const Moments& moments) {
        const float spread = moments.squares / moments.count;
        const float scale = 1 / sqrtf(spread + epsilon);
        const int64_t at = row * features + i;
        store(to[at], (to_float(from[at]) - moments.mean) * scale * gamma[i] + beta[i]);
        if (i > 0) return;
        mean[row] = moments.mean;
        variance[row] = spread;
      });
}

template <typename T>
cudaError_t backward_typed(const LayerNorm& norm, const void* x, const void* dy, const float* gamma,
                           const float* mean, const float* variance, void* dx, cudaStream_t stream) {
  const auto* values = static_cast<const T*>(x);
  const auto* gradient = static_cast<const T*>(dy);
  auto* to = static_cast<T*>(dx);
  const int64_t features = norm.features;
  const float epsilon = norm.epsilon;
  // With x̂ the normalised values and g = dy · gamma: dx = (g − mean of g − x̂ · mean of g · x̂) / √(variance + ε).
  return map_rows(
      norm.rows, features, false, stream, TwoSums{0, 0},
      [=] TELAR_GPU(int64_t row, int64_t i) {
        const int64_t at = row * features + i;
        const float g = to_float(gradient[at]) * gamma[i];
        return TwoSums{g, g * (to_float(values[at]) - mean[row])};
      },
      AddBoth(),
      [=] TELAR_GPU(int64_t row, int64_t i, const TwoSums& sums) {
        const float scale = 1 / sqrtf(variance[row] + epsilon);
        const float share = 1 / static_cast<float>(features);
        const int64_t at = row * features + i;
        const float g = to_float(gradient[at]) * gamma[i];
        const float apart = to_float(values[at]) - mean[row];
        store(to[at], scale * (g - sums.first * share - apart * scale * scale * (sums.second * share)));
      });
}

/// The terms of column sums.
template <typename T>
struct Columns {
  const T* x;
  const T* dy;
  const float* mean;
  const float* variance;
  int64_t features;
  float epsilon;

  TELAR_GPU int64_t place(int64_t column) const { return column; }
  TELAR_GPU TwoSums operator()(int64_t column, int64_t row) const {
    const int64_t at = row * features + column;
    const float g = to_float(dy[at]);
    return {g * (to_float(x[at]) - mean[row]) / sqrtf(variance[row] + epsilon), g};
  }
};

struct StoreBoth {
  float* first;
  float* second;
  TELAR_GPU void operator()(int64_t i, const TwoSums& sums) const {
    first[i] = sums.first;
    second[i] = sums.second;
  }
};

template <typename T>
cudaError_t sums_typed(const LayerNorm& norm, const Pieces& pieces, const void* x, const void* dy,
                       const float* mean, const float* variance, float* dgamma, float* dbeta, float* between,
                       cudaStream_t stream) {
  return reduce_pieces(pieces, reinterpret_cast<TwoSums*>(between), stream, TwoSums{0, 0},
                       Columns<T>{static_cast<const T*>(x), static_cast<const T*>(dy), mean, variance,
                                  norm.features, norm.epsilon},
                       AddBoth(), StoreBoth{dgamma, dbeta});
}

}  // namespace

cudaError_t layer_norm(const LayerNorm& norm, const void* x, const float* gamma, const float* beta, void* y,
                       float* mean, float* variance, DType dtype, cudaStream_t stream) {
  return with_type(dtype, [&](auto type) {
    return forward_typed<decltype(type)>(norm, x, gamma, beta, y, mean, variance, stream);
  });
}

cudaError_t layer_norm_backward(const LayerNorm& norm, const void* x, const void* dy, const float* gamma,
                                const float* mean, const float* variance, void* dx, DType dtype,
                                cudaStream_t stream) {
  return with_type(dtype, [&](auto type) {
    return backward_typed<decltype(type)>(norm, x, dy, gamma, mean, variance, dx, stream);
  });
}

cudaError_t layer_norm_sums(const LayerNorm& norm, const Pieces& pieces, const void* x, const void* dy,
                            const float* mean, const float* variance, float* dgamma, float* dbeta,
                            float* between, DType dtype, cudaStream_t stream) {
  return with_type(dtype, [&](auto type) {
    return sums_typed<decltype(type)>(norm, pieces, x, dy, mean, variance, dgamma, dbeta, between, stream);
  });
}

}  // namespace telar::cuda
