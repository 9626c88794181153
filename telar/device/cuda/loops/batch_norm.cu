#include "telar/device/cuda/loops/batch_norm.h"

#include <cmath>
#include <type_traits>

#include "telar/device/cuda/loops/for_each_channel.h"
#include "telar/device/cuda/loops/reduce_channels.h"

namespace telar::cuda {

namespace {

/// Means and Σ (x − mean)² of `count` values in each of W channels.
template <int W>
struct Moments {
  float count;
  float means[W];
  float squares[W];
};

/// Chan, Golub and LeVeque (1979), which loses no digits where means are large.
template <int W>
struct CombineMoments {
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

/// finish(c, moments of channels c … c + W − 1).
template <typename T, int W, typename Finish>
cudaError_t moments(const void* x, const Channels& of, float* pieces, Finish finish, cudaStream_t stream) {
  const auto* values = static_cast<const T*>(x);
  return reduce_channels<W>(
      of, reinterpret_cast<Moments<W>*>(pieces), stream, Moments<W>{},
      [=] TELAR_GPU(int64_t i, int64_t) {
        const Values<W> loaded = load<W>(values + i);
        Moments<W> one{};
        one.count = 1;
        for (int lane = 0; lane < W; ++lane) one.means[lane] = loaded.of[lane];
        return one;
      },
      CombineMoments<W>(), finish);
}

/// Calls f(T(), W) with as many values at once as there can be; W: an integral_constant. `reducing`: values that are not of channels
/// that come last are taken one by one.
template <typename F>
cudaError_t with_width(DType dtype, const Channels& of, bool reducing, const F& f) {
  return with_type(dtype, [&](auto type) {
    constexpr int kWidth = kWide<decltype(type)>;
    if (of.is_wide(kWidth) && (of.last || !reducing)) return f(type, std::integral_constant<int, kWidth>());
    return f(type, std::integral_constant<int, 1>());
  });
}

template <typename T, int W>
cudaError_t batch_statistics_typed(const void* x, const Channels& of, float epsilon, const float* shift,
                                   float* pieces, const BatchStatisticsMemory& to, cudaStream_t stream) {
  const auto count = static_cast<float>(of.length());
  return moments<T, W>(
      x, of, pieces,
      [=] TELAR_GPU(int64_t channel, const Moments<W>& found) {
        for (int i = 0; i < W; ++i) {
          const int64_t c = channel + i;
          to.mean[c] = to.kept_mean[c] = found.means[i];
          to.unbiased_variance[c] = found.squares[i] / (count > 1 ? count - 1 : count);
          to.kept_inverse[c] = 1.0F / sqrtf(found.squares[i] / count + epsilon);
          to.kept_shift[c] = shift[c];
        }
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
      [=] TELAR_GPU(int64_t channel, const Moments<W>& found) {
        for (int i = 0; i < W; ++i) {
          statistics[channel + i] = found.means[i];
          statistics[channels + channel + i] = found.squares[i];
        }
        if (channel == 0) statistics[2 * channels] = count;
      },
      stream);
}

/// y before the ReLU. What the backward pass computes again has to have the same sign: no compiler may round it otherwise there.
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
    TELAR_GPU void operator()(int64_t i) const {
      Values<W> values = load<W>(x + i);
      for (int lane = 0; lane < W; ++lane) {
        const float value = scaled(normalised(values.of[lane], mean.of[lane], inverse.of[lane]),
                                   scale.of[lane], shift.of[lane]);
        values.of[lane] = kRelu && value <= 0 ? 0 : value;  // NaN stays one
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

/// x̂ and, with a ReLU, what of dy comes through it.
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
};

template <int W>
struct AddGradientSums {
  TELAR_GPU GradientSums<W> operator()(GradientSums<W> a, const GradientSums<W>& b) const {
    for (int i = 0; i < W; ++i) {
      a.scale[i] += b.scale[i];
      a.shift[i] += b.shift[i];
    }
    return a;
  }
};

template <typename T, int W, bool kRelu>
cudaError_t sums_typed(const void* x, const void* dy, const Channels& of, const Normalisation& by,
                       float* pieces, const BatchNormGradients& to, cudaStream_t stream) {
  const auto* values = static_cast<const T*>(x);
  const auto* gradients = static_cast<const T*>(dy);
  const int64_t channels = of.channels;
  return reduce_channels<W>(
      of, reinterpret_cast<GradientSums<W>*>(pieces), stream, GradientSums<W>{},
      [=] TELAR_GPU(int64_t i, int64_t channel) {
        const Backwards<W, kRelu> back(by, channel, true);
        const Values<W> here = load<W>(values + i);
        const Values<W> above = load<W>(gradients + i);
        GradientSums<W> terms;
        for (int lane = 0; lane < W; ++lane) {
          const float at = normalised(here.of[lane], back.mean.of[lane], back.inverse.of[lane]);
          terms.shift[lane] = back.through(above.of[lane], at, lane);
          terms.scale[lane] = terms.shift[lane] * at;
        }
        return terms;
      },
      AddGradientSums<W>(),
      [=] TELAR_GPU(int64_t channel, const GradientSums<W>& sums) {
        for (int i = 0; i < W; ++i) {
          const int64_t c = channel + i;
          to.scale[c] = sums.scale[i];
          to.shift[c] = sums.shift[i];
          if (to.both != nullptr) to.both[c] = sums.shift[i];
          if (to.both != nullptr) to.both[channels + c] = sums.scale[i];
        }
      });
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
    TELAR_GPU void operator()(int64_t i) const {
      const Values<W> here = load<W>(x + i);
      Values<W> slopes = load<W>(dy + i);
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
  // Moments of one channel, which have the most numbers for each.
  constexpr int64_t kNumbers = sizeof(Moments<1>) / sizeof(float);
  return channel_pieces(of.images, of.channels, of.pixels) * of.channels * kNumbers;
}

cudaError_t batch_statistics(const void* x, DType dtype, const Channels& of, float epsilon,
                             const float* shift, float* pieces, const BatchStatisticsMemory& to,
                             cudaStream_t stream) {
  return with_width(dtype, of, true, [&](auto type, auto width) {
    return batch_statistics_typed<decltype(type), decltype(width)::value>(x, of, epsilon, shift, pieces, to,
                                                                          stream);
  });
}

cudaError_t statistics_of_kept(const Channels& of, float epsilon, const float* shift,
                               const BatchStatisticsMemory& to, cudaStream_t stream) {
  const auto count = static_cast<float>(of.length());
  const float unbiased = count > 1 ? count / (count - 1) : 1.0F;
  return for_each(of.channels, stream, [=] TELAR_GPU(int64_t c) {
    const float inverse = to.kept_inverse[c];
    to.mean[c] = to.kept_mean[c];
    const float variance = 1.0F / (inverse * inverse) - epsilon;
    to.unbiased_variance[c] = variance < 0 ? 0 : variance * unbiased;  // NaN stays one
    to.kept_shift[c] = shift[c];
  });
}

cudaError_t part_statistics(const void* x, DType dtype, const Channels& of, float* pieces, float* statistics,
                            cudaStream_t stream) {
  return with_width(dtype, of, true, [&](auto type, auto width) {
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
  return with_width(dtype, of, false, [&](auto type, auto width) {
    return normalise_typed<decltype(type), decltype(width)::value>(x, of, by, relu, y, stream);
  });
}

cudaError_t batch_norm_sums(const void* x, const void* dy, DType dtype, const Channels& of,
                            const Normalisation& by, bool relu, float* pieces, const BatchNormGradients& to,
                            cudaStream_t stream) {
  return with_width(dtype, of, true, [&](auto type, auto width) {
    using T = decltype(type);
    constexpr int kWidth = decltype(width)::value;
    if (relu) return sums_typed<T, kWidth, true>(x, dy, of, by, pieces, to, stream);
    return sums_typed<T, kWidth, false>(x, dy, of, by, pieces, to, stream);
  });
}

cudaError_t batch_norm_slopes(const void* x, const void* dy, DType dtype, const Channels& of,
                              const Normalisation& by, bool relu, const float* scale_sums,
                              const float* shift_sums, float factor, void* dx, cudaStream_t stream) {
  return with_width(dtype, of, false, [&](auto type, auto width) {
    using T = decltype(type);
    constexpr int kWidth = decltype(width)::value;
    if (relu) {
      return slopes_typed<T, kWidth, true>(x, dy, of, by, scale_sums, shift_sums, factor, dx, stream);
    }
    return slopes_typed<T, kWidth, false>(x, dy, of, by, scale_sums, shift_sums, factor, dx, stream);
  });
}

}  // namespace telar::cuda
