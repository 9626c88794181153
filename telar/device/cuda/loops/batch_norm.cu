#include "telar/device/cuda/loops/batch_norm.h"

#include <cmath>
#include <type_traits>

#include "telar/device/cuda/loops/for_each_channel.h"
#include "telar/device/cuda/loops/reduce_channels.h"

namespace telar::cuda {

namespace {

/// The means and Σ (x − mean)² of `count` values in each of W channels.
template <int W>
struct Moments {
  float count;
  float means[W];
  float squares[W];
  TELAR_GPU Moments<1> lane(int i) const { return {count, {means[i]}, {squares[i]}}; }
};

/// Chan, Golub and LeVeque (1979): no cancellation when means are large.
struct CombineMoments {
  template <int W>
  TELAR_GPU Moments<W> operator()(Moments<W> a, const Moments<W>& b) const {
    const float count = a.count + b.count;
    const float share = count > 0 ? b.count / count : 0.0F;
    for (int i = 0; i < W; ++i) {
      const float apart = b.means[i] - a.means[i];
      a.means[i] += apart * share;
      a.squares[i] += b.squares[i] + apart * apart * a.count * share;
    }
    a.count = count;
    return a;
  }
};

template <typename T>
struct TermsOfMoments {
  const T* x;

  template <int W>
  TELAR_GPU Moments<W> of_channels(int64_t i, int64_t /*channel*/) const {
    const Values<W> values = load<W>(x + i);
    Moments<W> one{};
    one.count = 1;
    for (int lane = 0; lane < W; ++lane) one.means[lane] = values.of[lane];
    return one;
  }
  template <int W>
  TELAR_GPU Moments<1> of_pixels(int64_t i, int64_t /*channel*/) const {
    const Values<W> values = load<W>(x + i);
    float sum = 0;
    for (const float value : values.of) sum += value;
    const float mean = sum / W;
    float squares = 0;
    for (const float value : values.of) squares += (value - mean) * (value - mean);
    return {W, {mean}, {squares}};
  }
};

/// Calls finish(c, moments) for each channel.
template <typename T, int W, typename Finish>
cudaError_t moments(const void* x, const Channels& of, float* pieces, Finish finish, cudaStream_t stream) {
  return reduce_channels<W, Moments>(of, reinterpret_cast<Moments<1>*>(pieces), stream,
                                     TermsOfMoments<T>{static_cast<const T*>(x)}, CombineMoments(), finish);
}

/// Calls f(T(), W), where the integral_constant W is the largest possible vector width.
template <typename F>
cudaError_t with_width(DType dtype, const Channels& of, const F& f) {
  return with_type(dtype, [&](auto type) {
    constexpr int kWidth = kWide<decltype(type)>;
    if (of.is_wide(kWidth)) return f(type, std::integral_constant<int, kWidth>());
    return f(type, std::integral_constant<int, 1>());
  });
}

template <typename T, int W>
cudaError_t batch_statistics_typed(const void* x, const Channels& of, float epsilon, const float* shift,
                                   float* pieces, const BatchStatisticsMemory& to, cudaStream_t stream) {
  const auto count = static_cast<float>(of.length());
  return moments<T, W>(
      x, of, pieces,
      [=] TELAR_GPU(int64_t c, const Moments<1>& found) {
        to.mean[c] = to.kept_mean[c] = found.means[0];
        to.variance[c] = found.squares[0] / (count > 1 && !to.biased ? count - 1 : count);
        to.kept_inverse[c] = 1.0F / sqrtf(found.squares[0] / count + epsilon);
        to.kept_shift[c] = shift[c];
      },
      stream);
}

template <typename T, int W>
cudaError_t part_statistics_typed(const void* x, const Channels& of, float* pieces, float* statistics,
                                  cudaStream_t stream) {
  const int64_t channels = of.channels;
  const auto count = static_cast<float>(of.length());
  return moments<T, W>(
      x, of, pieces,
      [=] TELAR_GPU(int64_t c, const Moments<1>& found) {
        statistics[c] = found.means[0];
        statistics[channels + c] = found.squares[0];
        if (c == 0) statistics[2 * channels] = count;
      },
      stream);
}

/// y before the ReLU. The backward pass recomputes it and needs the same sign, so the rounding must not
/// depend on the compiler.
TELAR_GPU inline float normalised(float x, float mean, float inverse) { return (x - mean) * inverse; }
TELAR_GPU inline float scaled(float normalised, float scale, float shift) {
  return fmaf(scale, normalised, shift);
}

template <typename T, int W, bool kRelu>
struct Normalise {
  const T* x;
  T* y;
  Normalisation by;

  struct OfChannel {
    const T* x;
    T* y;
    Values<W> mean, inverse, scale, shift;
    TELAR_GPU Packed<T, W> read(int64_t i) const { return load_packed<W>(x + i); }
    TELAR_GPU void write(int64_t i, const Packed<T, W>& read) const {
      Values<W> values = unpacked(read);
      for (int lane = 0; lane < W; ++lane) {
        const float value = scaled(normalised(values.of[lane], mean.of[lane], inverse.of[lane]),
                                   scale.of[lane], shift.of[lane]);
        values.of[lane] = kRelu && value <= 0 ? 0 : value;  // keeps NaN
      }
      store(y + i, values);
    }
  };

  TELAR_GPU OfChannel of(int64_t channel, bool last) const {
    return {x,
            y,
            of_channels<W>(by.mean, channel, last),
            of_channels<W>(by.inverse, channel, last),
            of_channels<W>(by.scale, channel, last),
            of_channels<W>(by.shift, channel, last)};
  }
};

/// x̂ and, with a ReLU, the part of dy that passes through it.
template <int W, bool kRelu>
struct Backwards {
  Values<W> mean, inverse, scale, shift;

  TELAR_GPU Backwards(const Normalisation& by, int64_t channel, bool last)
      : mean(of_channels<W>(by.mean, channel, last)), inverse(of_channels<W>(by.inverse, channel, last)) {
    if (kRelu) {
      scale = of_channels<W>(by.scale, channel, last);
      shift = of_channels<W>(by.shift, channel, last);
    }
  }
  TELAR_GPU float through(float dy, float at, int lane) const {
    return kRelu && !(scaled(at, scale.of[lane], shift.of[lane]) > 0) ? 0 : dy;
  }
};

/// Σ dy · x̂ and Σ dy of W channels.
template <int W>
struct GradientSums {
  float scale[W];
  float shift[W];
  TELAR_GPU GradientSums<1> lane(int i) const { return {{scale[i]}, {shift[i]}}; }
};

struct AddGradientSums {
  template <int W>
  TELAR_GPU GradientSums<W> operator()(GradientSums<W> a, const GradientSums<W>& b) const {
    for (int i = 0; i < W; ++i) {
      a.scale[i] += b.scale[i];
      a.shift[i] += b.shift[i];
    }
    return a;
  }
};

template <typename T, bool kRelu>
struct TermsOfGradients {
  const T* x;
  const T* dy;
  Normalisation by;

  template <int W>
  TELAR_GPU GradientSums<W> of_channels(int64_t i, int64_t channel) const {
    return terms(Backwards<W, kRelu>(by, channel, true), load<W>(x + i), load<W>(dy + i));
  }
  template <int W>
  TELAR_GPU GradientSums<1> of_pixels(int64_t i, int64_t channel) const {
    const GradientSums<W> each =
        terms(Backwards<W, kRelu>(by, channel, false), load<W>(x + i), load<W>(dy + i));
    GradientSums<1> sums{};
    for (int lane = 0; lane < W; ++lane) sums = AddGradientSums()(sums, each.lane(lane));
    return sums;
  }

 private:
  template <int W>
  TELAR_GPU static GradientSums<W> terms(const Backwards<W, kRelu>& back, const Values<W>& x,
                                         const Values<W>& dy) {
    GradientSums<W> found;
    for (int lane = 0; lane < W; ++lane) {
      const float at = normalised(x.of[lane], back.mean.of[lane], back.inverse.of[lane]);
      found.shift[lane] = back.through(dy.of[lane], at, lane);
      found.scale[lane] = found.shift[lane] * at;
    }
    return found;
  }
};

struct StoreGradients {
  BatchNormGradients to;
  int64_t channels;
  TELAR_GPU void operator()(int64_t c, const GradientSums<1>& sums) const {
    to.scale[c] = sums.scale[0];
    to.shift[c] = sums.shift[0];
    if (to.both == nullptr) return;
    to.both[c] = sums.shift[0];
    to.both[channels + c] = sums.scale[0];
  }
};

template <typename T, int W, bool kRelu>
cudaError_t sums_typed(const void* x, const void* dy, const Channels& of, const Normalisation& by,
                       float* pieces, const BatchNormGradients& to, cudaStream_t stream) {
  return reduce_channels<W, GradientSums>(
      of, reinterpret_cast<GradientSums<1>*>(pieces), stream,
      TermsOfGradients<T, kRelu>{static_cast<const T*>(x), static_cast<const T*>(dy), by}, AddGradientSums(),
      StoreGradients{to, of.channels});
}

template <typename T, int W, bool kRelu>
struct Slopes {
  const T* x;
  const T* dy;
  T* dx;
  Normalisation by;
  const float* scale_sums;
  const float* shift_sums;
  float factor;

  struct OfChannel {
    const T* x;
    const T* dy;
    T* dx;
    Backwards<W, kRelu> back;
    Values<W> scale, scale_mean, shift_mean;  // scale · inverse, Σ dy·x̂ / n and Σ dy / n
    struct Read {
      Packed<T, W> x, dy;
    };
    TELAR_GPU Read read(int64_t i) const { return {load_packed<W>(x + i), load_packed<W>(dy + i)}; }
    TELAR_GPU void write(int64_t i, const Read& read) const {
      const Values<W> here = unpacked(read.x);
      Values<W> slopes = unpacked(read.dy);
      for (int lane = 0; lane < W; ++lane) {
        const float at = normalised(here.of[lane], back.mean.of[lane], back.inverse.of[lane]);
        const float through = back.through(slopes.of[lane], at, lane);
        slopes.of[lane] = scale.of[lane] * (through - shift_mean.of[lane] - at * scale_mean.of[lane]);
      }
      store(dx + i, slopes);
    }
  };

  TELAR_GPU OfChannel of(int64_t channel, bool last) const {
    OfChannel found{x,
                    dy,
                    dx,
                    Backwards<W, kRelu>(by, channel, last),
                    of_channels<W>(by.scale, channel, last),
                    of_channels<W>(scale_sums, channel, last),
                    of_channels<W>(shift_sums, channel, last)};
    for (int i = 0; i < W; ++i) {
      found.scale.of[i] *= found.back.inverse.of[i];
      found.scale_mean.of[i] *= factor;
      found.shift_mean.of[i] *= factor;
    }
    return found;
  }
};

template <typename T, int W>
cudaError_t normalise_typed(const void* x, const Channels& of, const Normalisation& by, bool relu, void* y,
                            cudaStream_t stream) {
  const auto* from = static_cast<const T*>(x);
  auto* to = static_cast<T*>(y);
  if (relu) return for_each_channel<W>(of, stream, Normalise<T, W, true>{from, to, by});
  return for_each_channel<W>(of, stream, Normalise<T, W, false>{from, to, by});
}

template <typename T, int W, bool kRelu>
cudaError_t slopes_typed(const void* x, const void* dy, const Channels& of, const Normalisation& by,
                         const float* scale_sums, const float* shift_sums, float factor, void* dx,
                         cudaStream_t stream) {
  return for_each_channel<W>(of, stream,
                             Slopes<T, W, kRelu>{static_cast<const T*>(x), static_cast<const T*>(dy),
                                                 static_cast<T*>(dx), by, scale_sums, shift_sums, factor});
}

}  // namespace

int64_t batch_norm_pieces(const Channels& of) {
  // Moments of one channel: the result with the most numbers per channel.
  constexpr int64_t kNumbers = sizeof(Moments<1>) / sizeof(float);
  return channel_pieces(of.images, of.channels, of.pixels) * of.channels * kNumbers;
}

cudaError_t batch_statistics(const void* x, DType dtype, const Channels& of, float epsilon,
                             const float* shift, float* pieces, const BatchStatisticsMemory& to,
                             cudaStream_t stream) {
  return with_width(dtype, of, [&](auto type, auto width) {
    return batch_statistics_typed<decltype(type), decltype(width)::value>(x, of, epsilon, shift, pieces, to,
                                                                          stream);
  });
}

cudaError_t statistics_of_kept(const Channels& of, float epsilon, const float* shift,
                               const BatchStatisticsMemory& to, cudaStream_t stream) {
  const auto count = static_cast<float>(of.length());
  const float factor = count > 1 && !to.biased ? count / (count - 1) : 1.0F;
  return for_each(of.channels, stream, [=] TELAR_GPU(int64_t c) {
    const float inverse = to.kept_inverse[c];
    to.mean[c] = to.kept_mean[c];
    const float variance = 1.0F / (inverse * inverse) - epsilon;
    to.variance[c] = variance < 0 ? 0 : variance * factor;  // keeps NaN
    to.kept_shift[c] = shift[c];
  });
}

cudaError_t part_statistics(const void* x, DType dtype, const Channels& of, float* pieces, float* statistics,
                            cudaStream_t stream) {
  return with_width(dtype, of, [&](auto type, auto width) {
    return part_statistics_typed<decltype(type), decltype(width)::value>(x, of, pieces, statistics, stream);
  });
}

cudaError_t inverse_deviations(const float* variance, float epsilon, int64_t channels, float* inverse,
                               cudaStream_t stream) {
  return for_each(channels, stream,
                  [=] TELAR_GPU(int64_t c) { inverse[c] = 1.0F / sqrtf(variance[c] + epsilon); });
}

cudaError_t normalise(const void* x, DType dtype, const Channels& of, const Normalisation& by, bool relu,
                      void* y, cudaStream_t stream) {
  return with_width(dtype, of, [&](auto type, auto width) {
    return normalise_typed<decltype(type), decltype(width)::value>(x, of, by, relu, y, stream);
  });
}

cudaError_t batch_norm_sums(const void* x, const void* dy, DType dtype, const Channels& of,
                            const Normalisation& by, bool relu, float* pieces, const BatchNormGradients& to,
                            cudaStream_t stream) {
  return with_width(dtype, of, [&](auto type, auto width) {
    using T = decltype(type);
    constexpr int kWidth = decltype(width)::value;
    if (relu) return sums_typed<T, kWidth, true>(x, dy, of, by, pieces, to, stream);
    return sums_typed<T, kWidth, false>(x, dy, of, by, pieces, to, stream);
  });
}

cudaError_t batch_norm_slopes(const void* x, const void* dy, DType dtype, const Channels& of,
                              const Normalisation& by, bool relu, const float* scale_sums,
                              const float* shift_sums, float factor, void* dx, cudaStream_t stream) {
  return with_width(dtype, of, [&](auto type, auto width) {
    using T = decltype(type);
    constexpr int kWidth = decltype(width)::value;
    if (relu) {
      return slopes_typed<T, kWidth, true>(x, dy, of, by, scale_sums, shift_sums, factor, dx, stream);
    }
    return slopes_typed<T, kWidth, false>(x, dy, of, by, scale_sums, shift_sums, factor, dx, stream);
  });
}

}  // namespace telar::cuda
