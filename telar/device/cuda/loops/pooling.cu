#include "telar/device/cuda/loops/pooling.h"

#include <cmath>
#include <type_traits>

#include "telar/device/cuda/loops/vectors.h"

namespace telar::cuda {

namespace {

struct Place {
  int64_t image, channel, row, column;
};

/// The pixels of x or of y, of which W channels are taken at once where those are last.
struct Pixels {
  int64_t images, channels, height, width;
  bool last;

  int64_t count() const { return images * channels * height * width; }

  /// Neighbouring indices lie side by side.
  template <int W>
  TELAR_GPU Place place(int64_t index) const {
    if (last) {
      const int64_t groups = channels / W;
      const int64_t pixel = index / groups;
      const int64_t line = pixel / width;
      const int64_t image = line / height;
      return {image, (index - pixel * groups) * W, line - image * height, pixel - line * width};
    }
    const int64_t line = index / width;
    const int64_t plane = line / height;
    const int64_t image = plane / channels;
    return {image, plane - image * channels, line - plane * height, index - line * width};
  }

  TELAR_GPU int64_t element(int64_t image, int64_t channel, int64_t row, int64_t column) const {
    return last ? ((image * height + row) * width + column) * channels + channel
                : ((image * channels + channel) * height + row) * width + column;
  }
};

Pixels input_of(const Pooling& of) { return {of.images, of.channels, of.down.size, of.right.size, of.last}; }
Pixels output_of(const Pooling& of) {
  return {of.images, of.channels, of.down.windows, of.right.windows, of.last};
}

/// From `first` to before `last`.
struct Range {
  int64_t first, last;
};

/// What of a window's kernel is not padding.
TELAR_GPU inline Range within_window(const PoolingAxis& axis, int64_t window) {
  const int64_t begin = window * axis.stride - axis.padding;
  const int64_t room = axis.size - begin;
  return {begin < 0 ? -begin : 0, room < axis.kernel ? room : axis.kernel};
}

/// The windows that a value of x is in.
TELAR_GPU inline Range windows_over(const PoolingAxis& axis, int64_t at) {
  const int64_t end = at + axis.padding;
  const int64_t first = end < axis.kernel ? 0 : (end - axis.kernel) / axis.stride + 1;
  const int64_t last = end / axis.stride + 1;
  return {first, last < axis.windows ? last : axis.windows};
}

/// The position, in its window, of the value that has won: in one byte where those of a window can be counted in it.
using SmallWinner = uint8_t;
using LargeWinner = int32_t;
bool is_small(const Pooling& of) { return of.down.kernel * of.right.kernel <= 256; }

template <typename T, int W, typename Winner>
cudaError_t max_pool_typed(const void* x, const Pooling& of, void* y, void* winners, cudaStream_t stream) {
  const auto* from = static_cast<const T*>(x);
  auto* to = static_cast<T*>(y);
  auto* won = static_cast<Winner*>(winners);
  const Pixels input = input_of(of);
  const Pixels output = output_of(of);
  return for_each(output.count() / W, stream, [=] TELAR_GPU(int64_t index) {
    const Place at = output.place<W>(index);
    const Range down = within_window(of.down, at.row);
    const Range right = within_window(of.right, at.column);
    const int64_t top = at.row * of.down.stride - of.down.padding;
    const int64_t left = at.column * of.right.stride - of.right.padding;
    Values<W> best;
    Packed<Winner, W> winner;
    for (int lane = 0; lane < W; ++lane) {
      best.of[lane] = -INFINITY;
      winner.of[lane] = static_cast<Winner>(down.first * of.right.kernel + right.first);
    }
    for (int64_t i = down.first; i < down.last; ++i) {
      for (int64_t j = right.first; j < right.last; ++j) {
        const Values<W> values = load<W>(from + input.element(at.image, at.channel, top + i, left + j));
        for (int lane = 0; lane < W; ++lane) {
          const float value = values.of[lane];
          if (!(value > best.of[lane] || value != value)) continue;
          best.of[lane] = value;
          winner.of[lane] = static_cast<Winner>(i * of.right.kernel + j);
        }
      }
    }
    store(to + index * W, best);
    if (won != nullptr) *reinterpret_cast<Packed<Winner, W>*>(won + index * W) = winner;
  });
}

template <typename T, int W, typename Winner>
cudaError_t max_pool_backward_typed(const void* dy, const void* winners, const Pooling& of, void* dx,
                                    cudaStream_t stream) {
  const auto* from = static_cast<const T*>(dy);
  auto* to = static_cast<T*>(dx);
  const auto* won = static_cast<const Winner*>(winners);
  const Pixels input = input_of(of);
  const Pixels output = output_of(of);
  return for_each(input.count() / W, stream, [=] TELAR_GPU(int64_t index) {
    const Place at = input.place<W>(index);
    const Range down = windows_over(of.down, at.row);
    const Range right = windows_over(of.right, at.column);
    Values<W> sums{};
    for (int64_t i = down.first; i < down.last; ++i) {
      for (int64_t j = right.first; j < right.last; ++j) {
        const int64_t window = output.element(at.image, at.channel, i, j);
        const Values<W> slopes = load<W>(from + window);
        const Packed<Winner, W> winner = *reinterpret_cast<const Packed<Winner, W>*>(won + window);
        const int64_t row = at.row + of.down.padding - i * of.down.stride;
        const int64_t column = at.column + of.right.padding - j * of.right.stride;
        for (int lane = 0; lane < W; ++lane)
          if (winner.of[lane] == row * of.right.kernel + column) sums.of[lane] += slopes.of[lane];
      }
    }
    store(to + index * W, sums);
  });
}

template <typename T, int W>
cudaError_t average_pool_typed(const void* x, const Pooling& of, void* y, cudaStream_t stream) {
  const auto* from = static_cast<const T*>(x);
  auto* to = static_cast<T*>(y);
  const Pixels input = input_of(of);
  const Pixels output = output_of(of);
  const float area = static_cast<float>(of.down.kernel * of.right.kernel);
  return for_each(output.count() / W, stream, [=] TELAR_GPU(int64_t index) {
    const Place at = output.place<W>(index);
    const Range down = within_window(of.down, at.row);
    const Range right = within_window(of.right, at.column);
    const int64_t top = at.row * of.down.stride - of.down.padding;
    const int64_t left = at.column * of.right.stride - of.right.padding;
    Values<W> sums{};
    for (int64_t i = down.first; i < down.last; ++i) {
      for (int64_t j = right.first; j < right.last; ++j) {
        const Values<W> values = load<W>(from + input.element(at.image, at.channel, top + i, left + j));
        for (int lane = 0; lane < W; ++lane) sums.of[lane] += values.of[lane];
      }
    }
    for (float& sum : sums.of) sum /= area;
    store(to + index * W, sums);
  });
}

template <typename T, int W>
cudaError_t average_pool_backward_typed(const void* dy, const Pooling& of, void* dx, cudaStream_t stream) {
  const auto* from = static_cast<const T*>(dy);
  auto* to = static_cast<T*>(dx);
  const Pixels input = input_of(of);
  const Pixels output = output_of(of);
  const float area = static_cast<float>(of.down.kernel * of.right.kernel);
  return for_each(input.count() / W, stream, [=] TELAR_GPU(int64_t index) {
    const Place at = input.place<W>(index);
    const Range down = windows_over(of.down, at.row);
    const Range right = windows_over(of.right, at.column);
    Values<W> sums{};
    for (int64_t i = down.first; i < down.last; ++i) {
      for (int64_t j = right.first; j < right.last; ++j) {
        const Values<W> slopes = load<W>(from + output.element(at.image, at.channel, i, j));
        for (int lane = 0; lane < W; ++lane) sums.of[lane] += slopes.of[lane];
      }
    }
    for (float& sum : sums.of) sum /= area;
    store(to + index * W, sums);
  });
}

/// Calls f(T(), W) with as many channels at once as there can be; W: an integral_constant.
template <typename F>
cudaError_t with_width(DType dtype, const Pooling& of, const F& f) {
  return with_type(dtype, [&](auto type) {
    constexpr int kWidth = kWide<decltype(type)>;
    if (of.last && of.channels % kWidth == 0) return f(type, std::integral_constant<int, kWidth>());
    return f(type, std::integral_constant<int, 1>());
  });
}

}  // namespace

size_t winner_bytes(const Pooling& of) {
  return static_cast<size_t>(output_of(of).count()) *
         (is_small(of) ? sizeof(SmallWinner) : sizeof(LargeWinner));
}

cudaError_t max_pool(const void* x, DType dtype, const Pooling& of, void* y, void* winners,
                     cudaStream_t stream) {
  return with_width(dtype, of, [&](auto type, auto width) {
    using T = decltype(type);
    constexpr int kWidth = decltype(width)::value;
    if (is_small(of)) return max_pool_typed<T, kWidth, SmallWinner>(x, of, y, winners, stream);
    return max_pool_typed<T, kWidth, LargeWinner>(x, of, y, winners, stream);
  });
}

cudaError_t max_pool_backward(const void* dy, const void* winners, DType dtype, const Pooling& of, void* dx,
                              cudaStream_t stream) {
  return with_width(dtype, of, [&](auto type, auto width) {
    using T = decltype(type);
    constexpr int kWidth = decltype(width)::value;
    if (is_small(of)) return max_pool_backward_typed<T, kWidth, SmallWinner>(dy, winners, of, dx, stream);
    return max_pool_backward_typed<T, kWidth, LargeWinner>(dy, winners, of, dx, stream);
  });
}

cudaError_t average_pool(const void* x, DType dtype, const Pooling& of, void* y, cudaStream_t stream) {
  return with_width(dtype, of, [&](auto type, auto width) {
    return average_pool_typed<decltype(type), decltype(width)::value>(x, of, y, stream);
  });
}

cudaError_t average_pool_backward(const void* dy, DType dtype, const Pooling& of, void* dx,
                                  cudaStream_t stream) {
  return with_width(dtype, of, [&](auto type, auto width) {
    return average_pool_backward_typed<decltype(type), decltype(width)::value>(dy, of, dx, stream);
  });
}

}  // namespace telar::cuda
