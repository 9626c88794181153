#pragma once

#include <algorithm>
#include <cstdint>

namespace telar::cuda {

/// How the values of channels lie: [images, channels, pixels], or, channels last, [images, pixels, channels].
/// A matrix [N, C] is both, with one pixel; its channels are last.
struct Channels {
  int64_t images = 0;
  int64_t channels = 0;
  int64_t pixels = 1;
  bool last = false;

  /// Both layouts are matrices: a row of all channels for each pixel, or of all channels and their pixels for
  /// each image.
  int64_t rows() const { return last ? images * pixels : images; }
  int64_t columns() const { return last ? channels : channels * pixels; }
  /// Values of one channel.
  int64_t length() const { return images * pixels; }
  /// Whether `width` neighbouring values can always be taken at once: of as many channels, when those are
  /// last, or else of one.
  bool is_wide(int64_t width) const { return (last ? channels : pixels) % width == 0; }
};

/// In how many pieces the sums of each channel are computed, one behind the other being too slow: enough for
/// all of a GPU, but few beside the values themselves. Where channels are not last there may be fewer: see
/// pieces_of.
inline int64_t channel_pieces(int64_t images, int64_t channels, int64_t pixels) {
  constexpr int64_t kPiece = 8192;        // values of all channels that are worth a block
  constexpr int64_t kMost = 528;          // pieces: of large GPUs each multiprocessor takes some four at once
  constexpr int64_t kMostSums = 1 << 18;  // of all channels and pieces
  const int64_t length = images * pixels;
  const int64_t most = std::clamp<int64_t>(kMostSums / std::max<int64_t>(channels, 1), 8, kMost);
  return std::max<int64_t>(1, std::min({most, length * channels / kPiece, length}));
}

/// The same for values that lie so: a block has values of all channels where those are last, or else of one.
inline int64_t pieces_of(const Channels& of) {
  constexpr int64_t kPiece = 4096;  // values of one channel that are worth a block
  const int64_t most = channel_pieces(of.images, of.channels, of.pixels);
  return of.last ? most : std::clamp<int64_t>(of.length() / kPiece, 1, most);
}

}  // namespace telar::cuda
