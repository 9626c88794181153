#include "telar/device/cuda/loops/pooling.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "telar/device/cuda/loops/vectors.h"
#include "telar/device/cuda/loops/walk.h"

namespace telar::cuda {

namespace {

// Counted in Index (see walk.h): int64_t, or int32_t if it can count all elements of x and y. Signed, because
// windows begin in the padding.

template <typename Index>
struct Place {
  Index image, channel, row, column;
};

/// The pixels of x or y. W channels are processed at once if channels are last.
template <typename Index, bool kLast>
struct Pixels {
  Index channels, height, width;
  Divisor<Index> by_height, by_width;
  Divisor<Index> by_planes;  ///< of one pixel: groups of W channels if they are last, else channels

  Pixels(int64_t channels_of, int64_t height_of, int64_t width_of, int at_once)
      : channels(static_cast<Index>(channels_of)),
        height(static_cast<Index>(height_of)),
        width(static_cast<Index>(width_of)),
        by_height(height),
        by_width(width),
        by_planes(channels / at_once) {}

  /// Neighbouring indices are adjacent in memory.
  template <int W>
  TELAR_GPU Place<Index> place(int64_t i) const {
    const auto index = static_cast<Index>(i);
    if constexpr (kLast) {
      const Index pixel = index / by_planes;
      const Index line = pixel / by_width;
      const Index image = line / by_height;
      return {image, (index - pixel * by_planes.value) * W, line - image * height, pixel - line * width};
    } else {
      const Index line = index / by_width;
      const Index plane = line / by_height;
      const Index image = plane / by_planes;
      return {image, plane - image * channels, line - plane * height, index - line * width};
    }
  }

  TELAR_GPU Index element(const Place<Index>& at) const {
    if constexpr (kLast) return ((at.image * height + at.row) * width + at.column) * channels + at.channel;
    return ((at.image * channels + at.channel) * height + at.row) * width + at.column;
  }
};

/// The half-open range [first, last).
template <typename Index>
struct Range {
  Index first, last;
};

template <typename Index>
struct Axis {
  Index size, windows, kernel, stride, padding;
  Divisor<Index> by_stride;

  explicit Axis(const PoolingAxis& axis)
      : size(static_cast<Index>(axis.size)),
        windows(static_cast<Index>(axis.windows)),
        kernel(static_cast<Index>(axis.kernel)),
        stride(static_cast<Index>(axis.stride)),
        padding(static_cast<Index>(axis.padding)),
        by_stride(stride) {}

  /// The beginning of a window; negative in the padding.
  TELAR_GPU Index begin(Index window) const { return window * stride - padding; }
  /// The part of a window's kernel that is not padding.
  TELAR_GPU Range<Index> within_window(Index window) const {
    const Index room = size - begin(window);
    return {begin(window) < 0 ? -begin(window) : 0, room < kernel ? room : kernel};
  }
  /// The windows that contain a value of x.
  TELAR_GPU Range<Index> windows_over(Index at) const {
    const Index end = at + padding;
    const Index first = end < kernel ? 0 : (end - kernel) / by_stride + 1;
    const Index last = end / by_stride + 1;
    return {first, last < windows ? last : windows};
  }
};

/// Extents of the loops.
template <typename Index, bool kLast>
struct Extents {
  Pixels<Index, kLast> input, output;
  Axis<Index> down, right;

  /// at_once: channels that are processed at once, W.
  Extents(const Pooling& of, int at_once)
      : input(of.channels, of.down.size, of.right.size, at_once),
        output(of.channels, of.down.windows, of.right.windows, at_once),
        down(of.down),
        right(of.right) {}

  /// The first position in the kernel that is not padding.
  TELAR_GPU Index first_of_window(const Place<Index>& window) const {
    return down.within_window(window.row).first * right.kernel + right.within_window(window.column).first;
  }

  /// Calls f(element of x, position in the kernel) for a whole window except the padding, row by row.
  template <typename F>
  TELAR_GPU void for_each_of_window(const Place<Index>& window, const F& f) const {
    const Range<Index> rows = down.within_window(window.row);
    const Range<Index> columns = right.within_window(window.column);
    const Index top = down.begin(window.row);
    const Index left = right.begin(window.column);
    for (Index i = rows.first; i < rows.last; ++i)
      for (Index j = columns.first; j < columns.last; ++j)
        f(input.element({window.image, window.channel, top + i, left + j}), i * right.kernel + j);
  }

  /// Calls f(element of y, position in its kernel) for all windows that contain a value of x.
  template <typename F>
  TELAR_GPU void for_each_window_over(const Place<Index>& at, const F& f) const {
    const Range<Index> rows = down.windows_over(at.row);
    const Range<Index> columns = right.windows_over(at.column);
    for (Index i = rows.first; i < rows.last; ++i)
      for (Index j = columns.first; j < columns.last; ++j)
        f(output.element({at.image, at.channel, i, j}),
          (at.row - down.begin(i)) * right.kernel + at.column - right.begin(j));
  }
};

int64_t inputs_of(const Pooling& of) { return of.images * of.channels * of.down.size * of.right.size; }
int64_t outputs_of(const Pooling& of) { return of.images * of.channels * of.down.windows * of.right.windows; }

/// The position of the maximum in its window. One byte if that can count all positions of a window.
using SmallWinner = uint8_t;
using LargeWinner = int32_t;
bool is_small(const Pooling& of) { return of.down.kernel * of.right.kernel <= 256; }

// E: Extents. Each function object processes W values of y or, in the backward pass, of x.

template <int W, typename E, typename T, typename Winner>
struct MaxPool {
  E extents;
  const T* x;
  T* y;
  Winner* winners;  ///< may be null

  TELAR_GPU void operator()(int64_t index) const {
    const auto window = extents.output.template place<W>(index);
    Values<W> best;
    Packed<Winner, W> winner;
    for (int lane = 0; lane < W; ++lane) {
      best.of[lane] = -INFINITY;
      winner.of[lane] = static_cast<Winner>(extents.first_of_window(window));
    }
    extents.for_each_of_window(window, [&](auto element, auto position) {
      const Values<W> values = load<W>(x + element);
      for (int lane = 0; lane < W; ++lane) {
        const float value = values.of[lane];
        if (!(value > best.of[lane] || value != value)) continue;
        best.of[lane] = value;
        winner.of[lane] = static_cast<Winner>(position);
      }
    });
    store(y + index * W, best);
    if (winners != nullptr) store_packed(winners + index * W, winner);
  }
};

template <int W, typename E, typename T, typename Winner>
struct MaxPoolBackward {
  E extents;
  const T* dy;
  const Winner* winners;
  T* dx;

  TELAR_GPU void operator()(int64_t index) const {
    Values<W> sums{};
    extents.for_each_window_over(extents.input.template place<W>(index), [&](auto window, auto position) {
      const Values<W> slopes = load<W>(dy + window);
      const Packed<Winner, W> winner = load_packed<W>(winners + window);
      for (int lane = 0; lane < W; ++lane)
        if (winner.of[lane] == position) sums.of[lane] += slopes.of[lane];
    });
    store(dx + index * W, sums);
  }
};

template <int W, typename E, typename T>
struct AveragePool {
  E extents;
  const T* x;
  T* y;
  float area;

  TELAR_GPU void operator()(int64_t index) const {
    Values<W> sums{};
    extents.for_each_of_window(extents.output.template place<W>(index), [&](auto element, auto) {
      const Values<W> values = load<W>(x + element);
      for (int lane = 0; lane < W; ++lane) sums.of[lane] += values.of[lane];
    });
    for (float& sum : sums.of) sum /= area;
    store(y + index * W, sums);
  }
};

template <int W, typename E, typename T>
struct AveragePoolBackward {
  E extents;
  const T* dy;
  T* dx;
  float area;

  TELAR_GPU void operator()(int64_t index) const {
    Values<W> sums{};
    extents.for_each_window_over(extents.input.template place<W>(index), [&](auto window, auto) {
      const Values<W> slopes = load<W>(dy + window);
      for (int lane = 0; lane < W; ++lane) sums.of[lane] += slopes.of[lane];
    });
    for (float& sum : sums.of) sum /= area;
    store(dx + index * W, sums);
  }
};

float area_of(const Pooling& of) { return static_cast<float>(of.down.kernel * of.right.kernel); }

/// Calls f(Extents, T(), W), where the integral_constant W is the largest possible number of channels at
/// once.
template <typename F>
cudaError_t with_extents(DType dtype, const Pooling& of, const F& f) {
  return with_index(std::max(inputs_of(of), outputs_of(of)), [&](auto unsigned_index) {
    using Index = std::make_signed_t<decltype(unsigned_index)>;
    return with_type(dtype, [&](auto type) {
      constexpr int kWidth = kWide<decltype(type)>;
      constexpr std::integral_constant<int, 1> kOne;
      if (!of.last) return f(Extents<Index, false>(of, 1), type, kOne);
      if (of.channels % kWidth == 0)
        return f(Extents<Index, true>(of, kWidth), type, std::integral_constant<int, kWidth>());
      return f(Extents<Index, true>(of, 1), type, kOne);
    });
  });
}

/// Calls f(Winner()) with the type for this pooling.
template <typename F>
cudaError_t with_winner(const Pooling& of, const F& f) {
  return is_small(of) ? f(SmallWinner()) : f(LargeWinner());
}

}  // namespace

size_t winner_bytes(const Pooling& of) {
  return static_cast<size_t>(outputs_of(of)) * (is_small(of) ? sizeof(SmallWinner) : sizeof(LargeWinner));
}

cudaError_t max_pool(const void* x, DType dtype, const Pooling& of, void* y, void* winners,
                     cudaStream_t stream) {
  return with_extents(dtype, of, [&](auto extents, auto type, auto width) {
    using T = decltype(type);
    constexpr int kWidth = decltype(width)::value;
    return with_winner(of, [&](auto winner) {
      using Winner = decltype(winner);
      return for_each(
          outputs_of(of) / kWidth, stream,
          MaxPool<kWidth, decltype(extents), T, Winner>{extents, static_cast<const T*>(x), static_cast<T*>(y),
                                                        static_cast<Winner*>(winners)});
    });
  });
}

cudaError_t max_pool_backward(const void* dy, const void* winners, DType dtype, const Pooling& of, void* dx,
                              cudaStream_t stream) {
  return with_extents(dtype, of, [&](auto extents, auto type, auto width) {
    using T = decltype(type);
    constexpr int kWidth = decltype(width)::value;
    return with_winner(of, [&](auto winner) {
      using Winner = decltype(winner);
      return for_each(
          inputs_of(of) / kWidth, stream,
          MaxPoolBackward<kWidth, decltype(extents), T, Winner>{
              extents, static_cast<const T*>(dy), static_cast<const Winner*>(winners), static_cast<T*>(dx)});
    });
  });
}

cudaError_t average_pool(const void* x, DType dtype, const Pooling& of, void* y, cudaStream_t stream) {
  return with_extents(dtype, of, [&](auto extents, auto type, auto width) {
    using T = decltype(type);
    constexpr int kWidth = decltype(width)::value;
    return for_each(outputs_of(of) / kWidth, stream,
                    AveragePool<kWidth, decltype(extents), T>{extents, static_cast<const T*>(x),
                                                              static_cast<T*>(y), area_of(of)});
  });
}

cudaError_t average_pool_backward(const void* dy, DType dtype, const Pooling& of, void* dx,
                                  cudaStream_t stream) {
  return with_extents(dtype, of, [&](auto extents, auto type, auto width) {
    using T = decltype(type);
    constexpr int kWidth = decltype(width)::value;
    return for_each(inputs_of(of) / kWidth, stream,
                    AveragePoolBackward<kWidth, decltype(extents), T>{extents, static_cast<const T*>(dy),
                                                                      static_cast<T*>(dx), area_of(of)});
  });
}

}  // namespace telar::cuda
