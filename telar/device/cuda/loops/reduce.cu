#include "telar/device/cuda/loops/reduce.h"

#include <cmath>

#include "telar/device/cuda/loops/reduce_pieces.h"

namespace telar::cuda {

namespace {

struct Largest {
  TELAR_GPU float operator()(float a, float b) const { return a > b || a != a ? a : b; }  // a NaN is kept
};

/// Terms: the elements of x.
template <typename T, typename Index>
struct Values {
  const T* x;
  Walk<Index, 1> kept, reduced;

  TELAR_GPU const T* place(int64_t result) const { return x + kept.offsets(static_cast<Index>(result))[0]; }
  TELAR_GPU float operator()(const T* place, int64_t i) const {
    return to_float(place[reduced.offsets(static_cast<Index>(i))[0]]);
  }
};

/// Terms: 1 for each element that equals its result.
template <typename T, typename Index>
struct Ties {
  struct Place {
    const T* first;
    float wanted;
  };
  Values<T, Index> values;
  const T* y;

  TELAR_GPU Place place(int64_t result) const { return {values.place(result), to_float(y[result])}; }
  TELAR_GPU float operator()(const Place& place, int64_t i) const {
    return values(place.first, i) == place.wanted ? 1.0F : 0.0F;
  }
};

template <typename T, typename Index>
Values<T, Index> values_of(const void* x, const ReducedAxes& axes) {
  return {static_cast<const T*>(x), axes.kept.in<Index>(), axes.reduced.in<Index>()};
}

template <typename T>
struct StoreQuotient {
  T* y;
  float divisor;
  TELAR_GPU void operator()(int64_t result, float value) const { store(y[result], value / divisor); }
};

template <typename T, typename Index>
cudaError_t reduce_counted(Reduction reduction, const void* x, void* y, const ReducedAxes& axes,
                           float* between, cudaStream_t stream) {
  const auto values = values_of<T, Index>(x, axes);
  const float divisor = reduction == Reduction::mean ? static_cast<float>(axes.pieces.length) : 1.0F;
  const StoreQuotient<T> finish{static_cast<T*>(y), divisor};
  if (reduction == Reduction::max)
    return reduce_pieces(axes.pieces, between, stream, -HUGE_VALF, values, Largest(), finish);
  return reduce_pieces(axes.pieces, between, stream, 0.0F, values, Sum(), finish);
}

template <typename T, typename Index>
cudaError_t count_counted(const void* x, const void* y, float* ties, const ReducedAxes& axes, float* between,
                          cudaStream_t stream) {
  return reduce_pieces(axes.pieces, between, stream, 0.0F,
                       Ties<T, Index>{values_of<T, Index>(x, axes), static_cast<const T*>(y)}, Sum(),
                       StoreQuotient<float>{ties, 1.0F});
}

template <typename T, typename Index>
cudaError_t spread_counted(const void* dy, const void* x, const void* y, const float* ties, void* dx,
                           const LongWalk<1>& walk, cudaStream_t stream) {
  const auto* gradient = static_cast<const T*>(dy);
  const auto* values = static_cast<const T*>(x);
  const auto* largest = static_cast<const T*>(y);
  auto* to = static_cast<T*>(dx);
  const auto steps = walk.in<Index>();
  return for_each(walk.elements(), stream, [=] TELAR_GPU(int64_t i) {
    const auto result = steps.offsets(static_cast<Index>(i))[0];
    const bool tied = to_float(values[i]) == to_float(largest[result]);
    store(to[i], tied ? to_float(gradient[result]) / ties[result] : 0.0F);
  });
}

}  // namespace

cudaError_t reduce_values(Reduction reduction, const void* x, void* y, DType dtype, const ReducedAxes& axes,
                          float* between, cudaStream_t stream) {
  return with_type(dtype, [&](auto type) {
    return with_index(axes.pieces.results * axes.pieces.length, [&](auto index) {
      return reduce_counted<decltype(type), decltype(index)>(reduction, x, y, axes, between, stream);
    });
  });
}

cudaError_t count_ties(const void* x, const void* y, float* ties, DType dtype, const ReducedAxes& axes,
                       float* between, cudaStream_t stream) {
  return with_type(dtype, [&](auto type) {
    return with_index(axes.pieces.results * axes.pieces.length, [&](auto index) {
      return count_counted<decltype(type), decltype(index)>(x, y, ties, axes, between, stream);
    });
  });
}

cudaError_t spread_to_ties(const void* dy, const void* x, const void* y, const float* ties, void* dx,
                           DType dtype, const LongWalk<1>& walk, cudaStream_t stream) {
  return with_type(dtype, [&](auto type) {
    return with_index(walk.elements(), [&](auto index) {
      return spread_counted<decltype(type), decltype(index)>(dy, x, y, ties, dx, walk, stream);
    });
  });
}

}  // namespace telar::cuda
