#pragma once

#include "telar/device/cuda/loops/channels.h"
#include "telar/device/cuda/loops/vectors.h"

namespace telar::cuda {

// The reduction of W channels is a Found<W>; its lane(i) is the Found<1> of one channel. The terms are a
// function object with
//   Found<W> of_channels<W>(i, c): elements i … i + W − 1, one from each of the channels c … c + W − 1;
//   Found<1> of_pixels<W>(i, c): elements i … i + W − 1 of channel c.
// Function objects, not lambdas: nvcc does not allow its lambdas in a function that takes others.

/// A term when channels are last.
template <int W, template <int> class Found, typename Terms>
struct TermOfRow {
  Terms terms;
  int64_t channels;
  TELAR_GPU Found<W> operator()(int64_t row, int64_t column) const {
    return terms.template of_channels<W>(row * channels + column * W, column * W);
  }
};

/// A term of piece p of channel c, which is result c · count + p, when pixels are last. The W neighbours are
/// in one image.
template <int W, template <int> class Found, typename Terms>
struct TermOfPixels {
  Terms terms;
  int64_t channels;
  int64_t packs;  ///< in one channel of an image
  int64_t all;    ///< packs in a channel
  int64_t count;
  int64_t each;  ///< packs in a piece

  TELAR_GPU Found<1> operator()(int64_t result, int64_t i) const {
    const int64_t channel = result / count;
    const int64_t at = (result - channel * count) * each + i;
    if (at >= all) return {};
    const int64_t image = at / packs;
    return terms.template of_pixels<W>(((image * channels + channel) * packs + (at - image * packs)) * W,
                                       channel);
  }
};

/// Takes the result of a piece of a channel; a single piece is the final result.
template <typename One, typename Finish>
struct TakePiece {
  One* pieces;
  int64_t channels;
  int64_t count;
  Finish finish;
  TELAR_GPU void operator()(int64_t piece, int64_t channel, const One& found) const {
    if (count == 1) {
      finish(channel, found);
    } else {
      pieces[piece * channels + channel] = found;
    }
  }
};

template <int W, template <int> class Found, typename Take>
struct FinishRow {
  Take take;
  TELAR_GPU void operator()(int64_t piece, int64_t column, const Found<W>& found) const {
    for (int i = 0; i < W; ++i) take(piece, column * W + i, found.lane(i));
  }
};

template <typename One, typename Take>
struct FinishPixels {
  Take take;
  TELAR_GPU void operator()(int64_t result, const One& found) const {
    const int64_t channel = result / take.count;
    take(result - channel * take.count, channel, found);
  }
};

template <typename One>
struct FoundOfPiece {
  const One* pieces;
  int64_t channels;
  TELAR_GPU One operator()(int64_t channel, int64_t piece) const {
    return pieces[piece * channels + channel];
  }
};

/// Calls finish(c, Found<1>() ∘ …) for each channel, over the terms of all its elements, of which W can be
/// read at once (Channels::is_wide). ∘ = combine, for any width, associative and commutative except for
/// rounding. `pieces`: channel_pieces(…) · channels.
template <int W, template <int> class Found, typename Terms, typename Combine, typename Finish>
cudaError_t reduce_channels(const Channels& of, Found<1>* pieces, cudaStream_t stream, const Terms& terms,
                            Combine combine, const Finish& finish) {
  using Take = TakePiece<Found<1>, Finish>;
  const int64_t count = pieces_of(of);
  const Take take{pieces, of.channels, count, finish};
  cudaError_t status = cudaSuccess;
  if (of.last) {
    status = reduce_columns(of.rows(), of.channels / W, count, stream, Found<W>{},
                            TermOfRow<W, Found, Terms>{terms, of.channels}, combine,
                            FinishRow<W, Found, Take>{take});
  } else {
    const int64_t all = of.length() / W;
    const int64_t each = (all + count - 1) / count;
    status = reduce(of.channels * count, each, stream, Found<1>{},
                    TermOfPixels<W, Found, Terms>{terms, of.channels, of.pixels / W, all, count, each},
                    combine, FinishPixels<Found<1>, Take>{take});
  }
  if (status != cudaSuccess || count == 1) return status;
  return reduce(of.channels, count, stream, Found<1>{}, FoundOfPiece<Found<1>>{pieces, of.channels}, combine,
                finish);
}

}  // namespace telar::cuda
