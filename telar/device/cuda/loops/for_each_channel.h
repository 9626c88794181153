#pragma once

#include "telar/device/cuda/loops/channels.h"
#include "telar/device/cuda/loops/vectors.h"

namespace telar::cuda {

/// Numbers of W channels from `channel` on, or, unless channels are last, W times that of `channel`.
template <int W>
TELAR_GPU Values<W> of_channels(const float* numbers, int64_t channel, bool last) {
  if (last) return load<W>(numbers + channel);
  Values<W> same;
  for (int i = 0; i < W; ++i) same.of[i] = numbers[channel];
  return same;
}

/// For every W neighbouring elements, from element i on, of channels c … c + W − 1, or, unless channels are
/// last, of channel c: at.write(i, at.read(i)) with at = f.of(c, last). What f.of reads of a channel serves
/// for some rows. What is written may lie where that was which is read for the same i.
template <int W, typename F>
cudaError_t for_each_channel(const Channels& of, cudaStream_t stream, F f) {
  constexpr int64_t kRows =
      4;  // of a thread, which reads two at once: of more there are too many numbers for its registers
  const int64_t rows = of.rows();
  const int64_t columns = of.columns() / W;
  const int64_t pixels = of.pixels;
  const bool last = of.last;
  const int64_t step = (rows + kRows - 1) / kRows;
  return for_each(step * columns, stream, [=] TELAR_GPU(int64_t index) {
    const int64_t first = index / columns;
    const int64_t column = (index - first * columns) * W;
    const auto at = f.of(last ? column : column / pixels, last);
    const int64_t apart = step * columns * W;
    int64_t i = first * columns * W + column;
    int64_t row = first;
    for (; row + step < rows; row += 2 * step, i += 2 * apart) {
      const auto one = at.read(i);
      const auto other = at.read(i + apart);
      at.write(i, one);
      at.write(i + apart, other);
    }
    if (row < rows) at.write(i, at.read(i));
  });
}

}  // namespace telar::cuda
