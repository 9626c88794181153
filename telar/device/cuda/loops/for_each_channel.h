#pragma once

#include "telar/device/cuda/loops/channels.h"
#include "telar/device/cuda/loops/vectors.h"

namespace telar::cuda {

/// The numbers of W channels from `channel` on; if channels are not last, W copies of the number of
/// `channel`.
template <int W>
TELAR_GPU Values<W> of_channels(const float* numbers, int64_t channel, bool last) {
  if (last) return load<W>(numbers + channel);
  Values<W> same;
  for (int i = 0; i < W; ++i) same.of[i] = numbers[channel];
  return same;
}

/// Calls at.write(i, at.read(i)), with at = f.of(c, last), for all groups of W neighbouring elements. Element
/// i is the first of a group of channels c … c + W − 1 or, if channels are not last, of channel c. What f.of
/// reads for a channel is reused for several rows. The output for i may be written over the input for the
/// same i.
template <int W, typename F>
cudaError_t for_each_channel(const Channels& of, cudaStream_t stream, F f) {
  // Rows of a thread, which reads two at a time: more would need too many registers.
  constexpr int64_t kRows = 4;
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
