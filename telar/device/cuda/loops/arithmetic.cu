#include "telar/device/cuda/loops/arithmetic.h"

#include "telar/device/cuda/loops/pack.h"
#include "telar/device/cuda/loops/vectors.h"

namespace telar::cuda {

namespace {

struct Product {
  TELAR_GPU float operator()(float a, float b) const { return a * b; }
};

template <typename F>
struct Rectified {
  TELAR_GPU float operator()(float a, float b) const {
    const float y = F()(a, b);
    return y > 0 || y != y ? y : 0;
  }
};

template <typename F>
cudaError_t with_function(Combination combination, const F& f) {
  if (combination.operation == Arithmetic::add) return combination.relu ? f(Rectified<Sum>()) : f(Sum());
  return combination.relu ? f(Rectified<Product>()) : f(Product());
}

template <typename T, typename F>
struct Combine {
  F f;
  const T* a;
  const T* b;
  T* y;

  template <int W>
  TELAR_GPU void at(int64_t i) const {
    Values<W> values = load<W>(a + i);
    const Values<W> second = load<W>(b + i);
    for (int lane = 0; lane < W; ++lane) values.of[lane] = f(values.of[lane], second.of[lane]);
    store(y + i, values);
  }
};

template <typename T, typename F>
cudaError_t combine_typed(F f, const void* a, const void* b, void* y, int64_t count, cudaStream_t stream) {
  return for_each_wide<kWide<T>>(
      count, lies_for_packs(a) && lies_for_packs(b) && lies_for_packs(y), stream,
      Combine<T, F>{f, static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(y)});
}

template <typename T, typename Index, typename F>
cudaError_t combine_counted(F f, const void* a, const void* b, void* y, const LongWalk<2>& walk,
                            cudaStream_t stream) {
  const auto* first = static_cast<const T*>(a);
  const auto* second = static_cast<const T*>(b);
  auto* to = static_cast<T*>(y);
  const auto steps = walk.in<Index>();
  return for_each(walk.elements(), stream, [=] TELAR_GPU(int64_t i) {
    const auto at = steps.offsets(static_cast<Index>(i));
    store(to[i], f(to_float(first[at[0]]), to_float(second[at[1]])));
  });
}

template <typename T, typename Index>
cudaError_t spread_counted(const void* x, float factor, void* y, const LongWalk<1>& walk,
                           cudaStream_t stream) {
  const auto* from = static_cast<const T*>(x);
  auto* to = static_cast<T*>(y);
  const auto steps = walk.in<Index>();
  return for_each(walk.elements(), stream, [=] TELAR_GPU(int64_t i) {
    store(to[i], factor * to_float(from[steps.offsets(static_cast<Index>(i))[0]]));
  });
}

}  // namespace

cudaError_t combine(Combination combination, const void* a, const void* b, void* y, DType dtype,
                    int64_t count, cudaStream_t stream) {
  return with_type(dtype, [&](auto type) {
    return with_function(combination, [&](auto function) {
      return combine_typed<decltype(type)>(function, a, b, y, count, stream);
    });
  });
}

cudaError_t combine_walked(Combination combination, const void* a, const void* b, void* y, DType dtype,
                           const LongWalk<2>& walk, cudaStream_t stream) {
  return with_type(dtype, [&](auto type) {
    return with_function(combination, [&](auto function) {
      return with_index(walk.elements(), [&](auto index) {
        return combine_counted<decltype(type), decltype(index)>(function, a, b, y, walk, stream);
      });
    });
  });
}

cudaError_t spread(const void* x, float factor, void* y, DType dtype, const LongWalk<1>& walk,
                   cudaStream_t stream) {
  return with_type(dtype, [&](auto type) {
    return with_index(walk.elements(), [&](auto index) {
      return spread_counted<decltype(type), decltype(index)>(x, factor, y, walk, stream);
    });
  });
}

}  // namespace telar::cuda
