#pragma once

#include "telar/device/cuda/loops/channels.h"
#include "telar/device/cuda/loops/vectors.h"

namespace telar::cuda {

/// The first of two stages: pieces[p · (channels / W) + c / W] = start ∘ term(i, c) ∘ … over piece p of channels c … c + W − 1, with
/// i the element of channel c. Plain values have W = 1.
template <int W, typename T, typename Term, typename Combine>
cudaError_t reduce_pieces(const Channels& of, T* pieces, cudaStream_t stream, T start, Term term,
                          Combine combine) {
  const int64_t count = channel_pieces(of.images, of.channels, of.pixels);
  const int64_t channels = of.channels;
  const int64_t columns = channels / W;
  if (of.last) {
    return reduce_columns(
        of.rows(), columns, count, stream, start,
        [=] TELAR_GPU(int64_t row, int64_t column) { return term(row * channels + column * W, column * W); },
        combine,
        [=] TELAR_GPU(int64_t piece, int64_t column, const T& value) {
          pieces[piece * columns + column] = value;
        });
  }
  const int64_t all = of.length();
  const int64_t pixels = of.pixels;
  const int64_t length = (all + count - 1) / count;
  return reduce(
      channels * count, length, stream, start,
      [=] TELAR_GPU(int64_t result, int64_t i) {
        const int64_t channel = result / count;
        const int64_t at = (result - channel * count) * length + i;
        if (at >= all) return start;
        const int64_t image = at / pixels;
        return term((image * channels + channel) * pixels + (at - image * pixels), channel);
      },
      combine,
      [=] TELAR_GPU(int64_t result, const T& value) {
        const int64_t channel = result / count;
        pieces[(result - channel * count) * columns + channel] = value;
      });
}

/// For the channels c … c + W − 1, with c every multiple of W: finish(c, start ∘ term(i, c) ∘ …) over all their elements. `pieces`:
/// channel_pieces(…) · channels / W of T.
template <int W, typename T, typename Term, typename Combine, typename Finish>
cudaError_t reduce_channels(const Channels& of, T* pieces, cudaStream_t stream, T start, Term term,
                            Combine combine, Finish finish) {
  const cudaError_t status = reduce_pieces<W>(of, pieces, stream, start, term, combine);
  if (status != cudaSuccess) return status;
  const int64_t columns = of.channels / W;
  return reduce(
      columns, channel_pieces(of.images, of.channels, of.pixels), stream, start,
      [=] TELAR_GPU(int64_t column, int64_t piece) { return pieces[piece * columns + column]; }, combine,
      [=] TELAR_GPU(int64_t column, const T& value) { finish(column * W, value); });
}

}  // namespace telar::cuda
