#include "telar/device/cuda/loops/activation.h"

#include <cmath>

#include "telar/device/cuda/loops/pack.h"
#include "telar/device/cuda/loops/vectors.h"

namespace telar::cuda {

namespace {

constexpr float kSqrtHalf = 0.70710678118654752F;
constexpr float kInverseSqrt2Pi = 0.39894228040143268F;
constexpr float kSqrt2OverPi = 0.79788456080286536F;
constexpr float kCube = 0.044715F;
constexpr float kLeak = 0.01F;

struct Relu {
  TELAR_GPU float operator()(float x) const { return x > 0 || x != x ? x : 0; }   // keeps NaN
  TELAR_GPU float backwards(float dy, float y) const { return y <= 0 ? 0 : dy; }  // 0 even if dy is NaN
};
struct Gelu {
  TELAR_GPU float operator()(float x) const { return 0.5F * x * (1 + erff(x * kSqrtHalf)); }
  TELAR_GPU float backwards(float dy, float x) const {
    return dy * (0.5F * (1 + erff(x * kSqrtHalf)) + x * kInverseSqrt2Pi * expf(-0.5F * x * x));
  }
};
struct Sigmoid {
  TELAR_GPU float operator()(float x) const { return 1 / (1 + expf(-x)); }
  TELAR_GPU float backwards(float dy, float y) const { return dy * (y * (1 - y)); }
};
struct Tanh {
  TELAR_GPU float operator()(float x) const { return tanhf(x); }
  TELAR_GPU float backwards(float dy, float y) const { return dy * (1 - y * y); }
};

struct Silu {
  TELAR_GPU float operator()(float x) const { return x / (1 + expf(-x)); }
  TELAR_GPU float backwards(float dy, float x) const {
    const float s = 1 / (1 + expf(-x));
    return dy * (s * (1 + x * (1 - s)));
  }
};

struct GeluTanh {
  /// tanh of this is the bracket of the formula (activation.h).
  TELAR_GPU static float inner(float x) { return kSqrt2OverPi * (x + kCube * x * x * x); }
  TELAR_GPU float operator()(float x) const { return 0.5F * x * (1 + tanhf(inner(x))); }
  TELAR_GPU float backwards(float dy, float x) const {
    const float t = tanhf(inner(x));
    const float slope = kSqrt2OverPi * (1 + 3 * kCube * x * x);
    return dy * (0.5F * (1 + t) + 0.5F * x * (1 - t * t) * slope);
  }
};

struct Softplus {
  TELAR_GPU float operator()(float x) const { return (x > 0 ? x : 0) + log1pf(expf(x > 0 ? -x : x)); }
  TELAR_GPU float backwards(float dy, float x) const { return dy / (1 + expf(-x)); }
};

struct Hardswish {
  TELAR_GPU float operator()(float x) const {
    if (x <= -3) return 0;
    return x >= 3 ? x : x * (x + 3) / 6;
  }
  TELAR_GPU float backwards(float dy, float x) const {
    if (x <= -3) return 0;
    return x >= 3 ? dy : dy * (2 * x + 3) / 6;
  }
};

struct Elu {
  TELAR_GPU float operator()(float x) const { return x > 0 ? x : expm1f(x); }
  TELAR_GPU float backwards(float dy, float x) const { return x > 0 ? dy : dy * expf(x); }
};

struct LeakyRelu {
  TELAR_GPU float operator()(float x) const { return x > 0 ? x : kLeak * x; }
  TELAR_GPU float backwards(float dy, float x) const { return x > 0 ? dy : kLeak * dy; }
};

struct Scale {
  float factor;
  TELAR_GPU float operator()(float x) const { return factor * x; }
};

template <typename T, typename F>
struct Map {
  F f;
  const T* x;
  T* y;

  template <int W>
  TELAR_GPU void at(int64_t i) const {
    Values<W> values = load<W>(x + i);
    for (float& value : values.of) value = f(value);
    store(y + i, values);
  }
};

template <typename T, typename F>
struct MapBackward {
  F f;
  const T* dy;
  const T* data;
  T* dx;

  template <int W>
  TELAR_GPU void at(int64_t i) const {
    Values<W> slopes = load<W>(dy + i);
    const Values<W> known = load<W>(data + i);
    for (int lane = 0; lane < W; ++lane) slopes.of[lane] = f.backwards(slopes.of[lane], known.of[lane]);
    store(dx + i, slopes);
  }
};

template <typename T, typename F>
cudaError_t map_typed(F f, const void* x, void* y, int64_t count, cudaStream_t stream) {
  return for_each_wide<kWide<T>>(count, lies_for_packs(x) && lies_for_packs(y), stream,
                                 Map<T, F>{f, static_cast<const T*>(x), static_cast<T*>(y)});
}

template <typename T, typename F>
cudaError_t map_backward_typed(F f, const void* dy, const void* data, void* dx, int64_t count,
                               cudaStream_t stream) {
  return for_each_wide<kWide<T>>(
      count, lies_for_packs(dy) && lies_for_packs(data) && lies_for_packs(dx), stream,
      MapBackward<T, F>{f, static_cast<const T*>(dy), static_cast<const T*>(data), static_cast<T*>(dx)});
}

template <typename F>
cudaError_t activate(const void* x, void* y, DType dtype, int64_t count, cudaStream_t stream) {
  return with_type(dtype, [&](auto type) { return map_typed<decltype(type)>(F(), x, y, count, stream); });
}

template <typename F>
cudaError_t activate_backward(const void* dy, const void* data, void* dx, DType dtype, int64_t count,
                              cudaStream_t stream) {
  return with_type(
      dtype, [&](auto type) { return map_backward_typed<decltype(type)>(F(), dy, data, dx, count, stream); });
}

template <typename F>
ActivationLoop loop_of(const char* name) {
  return {name, activate<F>, activate_backward<F>};
}

}  // namespace

std::vector<ActivationLoop> activation_loops() {
  return {loop_of<Relu>("relu"),           loop_of<Gelu>("gelu"),           loop_of<Sigmoid>("sigmoid"),
          loop_of<Tanh>("tanh"),           loop_of<Silu>("silu"),           loop_of<GeluTanh>("gelu_tanh"),
          loop_of<Softplus>("softplus"),   loop_of<Hardswish>("hardswish"), loop_of<Elu>("elu"),
          loop_of<LeakyRelu>("leaky_relu")};
}

cudaError_t rectify(const void* x, void* y, DType dtype, int64_t count, cudaStream_t stream) {
  return activate<Relu>(x, y, dtype, count, stream);
}

cudaError_t scale_values(const void* x, float factor, void* y, DType dtype, int64_t count,
                         cudaStream_t stream) {
  return with_type(dtype,
                   [&](auto type) { return map_typed<decltype(type)>(Scale{factor}, x, y, count, stream); });
}

}  // namespace telar::cuda
