#pragma once

#include <vector>

#include "telar/device/cpu/primitives.h"

namespace telar::cpu {

/// The gradients of the weights and the bias of a depthwise convolution, in which each channel has a kernel
/// of its own. f32. oneDNN has a kernel for taps of up to 3 × 3; of larger ones it makes a small product for
/// each channel and sample, which takes about 20 times as long.
class DepthwiseGradient {
 public:
  /// Images x [N, C, H, W], outputs y [N, C, OH, OW], taps [KH, KW].
  DepthwiseGradient(const Shape& x, const Shape& y, const Shape& taps, const ConvolutionShape& shape);

  /// How images and outputs of this shape must lie: in blocks of 16 channels; those that fill the last block
  /// are zero.
  static Desc layout(const Shape& shape);

  /// x and dy in that layout. Writes dw [C, KH, KW] and, unless it is null, db [C], both plain.
  void operator()(const float* x, const float* dy, float* dw, float* db) const;

  /// The outputs first … end - 1 of an axis whose tap lies on the image; that of the first one lies at
  /// `start`.
  struct Meeting {
    int64_t first, end, start;
  };
  /// One row of taps of one block of channels.
  struct Row {
    const float* x;   ///< the block's first row of the first sample
    const float* dy;  ///< the same
    int64_t samples;
    int64_t x_sample, dy_sample;  ///< elements from a sample to the next
    int64_t x_row, dy_row;        ///< elements from a row to the next
    int64_t row_stride, column_stride;
    Meeting rows;
    const std::vector<Meeting>* columns;  ///< for each tap of the row
  };

 private:
  Shape x_, y_, taps_;
  int64_t row_stride_, column_stride_;
  std::vector<Meeting> rows_, columns_;  ///< for each row and column of taps
};

}  // namespace telar::cpu
