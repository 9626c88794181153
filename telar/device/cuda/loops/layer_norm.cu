#include "telar/device/cuda/loops/layer_norm.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "telar/device/cuda/loops/pack.h"
#include "telar/device/cuda/loops/reduce_pieces.h"
#include "telar/device/cuda/loops/rows.h"
#include "telar/device/cuda/loops/vectors.h"

namespace telar::cuda {

namespace {

/// The mean and Σ (x − mean)² of `count` numbers, combined as in Chan, Golub and LeVeque (1979), which avoids
/// cancellation.
struct RowMoments {
  float count;
  float mean;
  float squares;
};

struct CombineRowMoments {
  TELAR_GPU RowMoments operator()(const RowMoments& a, const RowMoments& b) const {
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

/// 1 / √x. Every element of a row computes it, so it must be fast; its error is at most two units in the last
/// place.
TELAR_GPU inline float inverse_root(float x) {
#ifdef __CUDACC__
  return rsqrtf(x);
#else
  return 1 / sqrtf(x);
#endif
}

// Rows as packs of W values.

template <int W, typename T>
cudaError_t forward_packed(const LayerNorm& norm, const T* x, const float* gamma, const float* beta, T* y,
                           float* mean, float* variance, cudaStream_t stream) {
  const int64_t features = norm.features;
  const float epsilon = norm.epsilon;
  return map_rows(
      norm.rows, features / W, false, stream, RowMoments{0, 0, 0},
      [=] TELAR_GPU(int64_t row, int64_t pack) {
        const Values<W> values = load<W>(x + row * features + pack * W);
        RowMoments found{W, 0, 0};
        for (const float value : values.of) found.mean += value / W;
        for (const float value : values.of) found.squares += (value - found.mean) * (value - found.mean);
        return found;
      },
      CombineRowMoments(),
      [=] TELAR_GPU(int64_t row, int64_t pack, const RowMoments& moments) {
        const float spread = moments.squares / moments.count;
        const float scale = inverse_root(spread + epsilon);
        const int64_t at = row * features + pack * W;
        Values<W> values = load<W>(x + at);
        const Values<W> scales = load<W>(gamma + pack * W);
        const Values<W> shifts = load<W>(beta + pack * W);
        for (int lane = 0; lane < W; ++lane) {
          const float normal = (values.of[lane] - moments.mean) * scale;
          values.of[lane] = normal * scales.of[lane] + shifts.of[lane];
        }
        store(y + at, values);
        if (pack > 0) return;
        mean[row] = moments.mean;
        variance[row] = spread;
      });
}

template <int W, typename T>
cudaError_t backward_packed(const LayerNorm& norm, const T* x, const T* dy, const float* gamma,
                            const float* mean, const float* variance, T* dx, cudaStream_t stream) {
  const int64_t features = norm.features;
  const float epsilon = norm.epsilon;
  const float share = 1 / static_cast<float>(features);
  // With x̂ the normalised values and g = dy · gamma: dx = (g − mean of g − x̂ · mean of g · x̂) / √(variance
  // + ε).
  return map_rows(
      norm.rows, features / W, false, stream, TwoSums{0, 0},
      [=] TELAR_GPU(int64_t row, int64_t pack) {
        const int64_t at = row * features + pack * W;
        const Values<W> values = load<W>(x + at);
        const Values<W> slopes = load<W>(dy + at);
        const Values<W> scales = load<W>(gamma + pack * W);
        TwoSums sums{0, 0};
        for (int lane = 0; lane < W; ++lane) {
          const float g = slopes.of[lane] * scales.of[lane];
          sums.first += g;
          sums.second += g * (values.of[lane] - mean[row]);
        }
        return sums;
      },
      AddBoth(),
      [=] TELAR_GPU(int64_t row, int64_t pack, const TwoSums& sums) {
        const float scale = inverse_root(variance[row] + epsilon);
        const float along = scale * scale * (sums.second * share);
        const int64_t at = row * features + pack * W;
        const Values<W> values = load<W>(x + at);
        Values<W> slopes = load<W>(dy + at);
        const Values<W> scales = load<W>(gamma + pack * W);
        for (int lane = 0; lane < W; ++lane) {
          const float g = slopes.of[lane] * scales.of[lane];
          slopes.of[lane] = scale * (g - sums.first * share - (values.of[lane] - mean[row]) * along);
        }
        store(dx + at, slopes);
      });
}

/// Whether rows can be read in packs: arrays of T, and numbers for each feature.
template <typename T>
bool in_packs(const LayerNorm& norm, std::initializer_list<const void*> arrays,
              std::initializer_list<const float*> numbers) {
  constexpr int kWidth = kWide<T>;
  return norm.features % kWidth == 0 &&
         std::all_of(arrays.begin(), arrays.end(), [](const void* array) { return lies_for_packs(array); }) &&
         std::all_of(numbers.begin(), numbers.end(),
                     [](const float* array) { return lies_for_packs(array, kWidth * sizeof(float)); });
}

template <typename T>
cudaError_t forward_typed(const LayerNorm& norm, const void* x, const float* gamma, const float* beta,
                          void* y, float* mean, float* variance, cudaStream_t stream) {
  const auto* from = static_cast<const T*>(x);
  auto* to = static_cast<T*>(y);
  if (in_packs<T>(norm, {x, y}, {gamma, beta}))
    return forward_packed<kWide<T>>(norm, from, gamma, beta, to, mean, variance, stream);
  return forward_packed<1>(norm, from, gamma, beta, to, mean, variance, stream);
}

template <typename T>
cudaError_t backward_typed(const LayerNorm& norm, const void* x, const void* dy, const float* gamma,
                           const float* mean, const float* variance, void* dx, cudaStream_t stream) {
  const auto* values = static_cast<const T*>(x);
  const auto* gradient = static_cast<const T*>(dy);
  auto* to = static_cast<T*>(dx);
  if (in_packs<T>(norm, {x, dy, dx}, {gamma}))
    return backward_packed<kWide<T>>(norm, values, gradient, gamma, mean, variance, to, stream);
  return backward_packed<1>(norm, values, gradient, gamma, mean, variance, to, stream);
}

/// The terms of the column sums.
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
    return {g * (to_float(x[at]) - mean[row]) * inverse_root(variance[row] + epsilon), g};
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
