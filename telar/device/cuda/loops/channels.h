#pragma once

#include <algorithm>
#include <cstdint>

namespace telar::cuda {

/// How the values of channels are stored: [images, channels, pixels] or, with channels last, [images, pixels,
/// channels]. A matrix [N, C] is both, with one pixel; `last` is then set.
struct Channels {
  int64_t images = 0;
  int64_t channels = 0;
  int64_t pixels = 1;
  bool last = false;

  /// Both layouts are matrices. A row contains all channels of a pixel, or all channels of an image with
  /// their pixels.
  int64_t rows() const { return last ? images * pixels : images; }
  int64_t columns() const { return last ? channels : channels * pixels; }
  /// The number of values in one channel.
  int64_t length() const { return images * pixels; }
  /// Whether groups of `width` neighbouring values can be read at once: values of `width` channels when those
  /// are last, otherwise of one channel.
  bool is_wide(int64_t width) const { return (last ? channels : pixels) % width == 0; }
};

/// The number of pieces into which the sums of each channel are divided. One after the other would be too
/// slow: the pieces must occupy the whole GPU but be few compared with the values. If channels are not last,
/// there may be fewer pieces: see pieces_of.
inline int64_t channel_pieces(int64_t images, int64_t channels, int64_t pixels) {
  constexpr int64_t kPiece = 8192;  // values of all channels that justify a block
  constexpr int64_t kMost = 528;    // pieces: about four at a time on each multiprocessor of a large GPU
  constexpr int64_t kMostSums = 1 << 18;  // sums of all channels and pieces
  const int64_t length = images * pixels;
  const int64_t most = std::clamp<int64_t>(kMostSums / std::max<int64_t>(channels, 1), 8, kMost);
  return std::max<int64_t>(1, std::min({most, length * channels / kPiece, length}));
}

/// The number of pieces for values in this layout. A block reads values of all channels when those are last,
/// otherwise of one.
inline int64_t pieces_of(const Channels& of) {
  constexpr int64_t kPiece = 4096;  // values of one channel that justify a block
  const int64_t most = channel_pieces(of.images, of.channels, of.pixels);
  return of.last ? most : std::clamp<int64_t>(of.length() / kPiece, 1, most);
}

}  // namespace telar::cuda
