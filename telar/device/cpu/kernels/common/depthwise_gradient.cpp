#include "telar/device/cpu/kernels/common/depthwise_gradient.h"

#include <algorithm>
#include <array>

#include "telar/core/simd.h"
#include "telar/device/cpu/parallel.h"

namespace telar::cpu {

namespace {

constexpr int64_t kBlock = 16;  // channels
using Lanes = std::array<float, kBlock>;

using Meeting = DepthwiseGradient::Meeting;

Meeting meeting(int64_t image, int64_t outputs, int64_t at, int64_t stride) {
  // Output o has its tap at o · stride + at.
  const int64_t first = at >= 0 ? 0 : (-at + stride - 1) / stride;
  const int64_t end = at >= image ? 0 : (image - 1 - at) / stride + 1;
  return {first, std::clamp(end, first, outputs), first * stride + at};
}

std::vector<Meeting> meetings(const Shape& x, const Shape& y, const Shape& taps,
                              const ConvolutionShape& shape, size_t axis) {
  std::vector<Meeting> all;
  for (int64_t tap = 0; tap < taps[axis]; ++tap)
    all.push_back(meeting(x[axis + 2], y[axis + 2], tap * shape.dilations[axis] - shape.padding[axis],
                          shape.strides[axis]));
  return all;
}

/// sums: 16 for each tap of the row.
TELAR_FOR_EACH_CPU
void add_row(const DepthwiseGradient::Row& row, Lanes* sums) {
  for (int64_t n = 0; n < row.samples; ++n) {
    for (int64_t o = row.rows.first; o < row.rows.end; ++o) {
      const float* x =
          row.x + n * row.x_sample + (row.rows.start + (o - row.rows.first) * row.row_stride) * row.x_row;
      const float* dy = row.dy + n * row.dy_sample + o * row.dy_row;
      for (size_t tap = 0; tap < row.columns->size(); ++tap) {
        const Meeting& columns = (*row.columns)[tap];
        Lanes sum = sums[tap];
        const float* from = x + columns.start * kBlock;
        for (int64_t column = columns.first; column < columns.end;
             ++column, from += row.column_stride * kBlock)
          for (int64_t lane = 0; lane < kBlock; ++lane)
            sum[static_cast<size_t>(lane)] += from[lane] * dy[column * kBlock + lane];
        sums[tap] = sum;
      }
    }
  }
}

TELAR_FOR_EACH_CPU
void add_outputs(const float* dy, int64_t count, Lanes& sum) {
  for (int64_t i = 0; i < count; ++i)
    for (size_t lane = 0; lane < kBlock; ++lane) sum[lane] += dy[i * kBlock + static_cast<int64_t>(lane)];
}

}  // namespace

DepthwiseGradient::DepthwiseGradient(const Shape& x, const Shape& y, const Shape& taps,
                                     const ConvolutionShape& shape)
    : x_(x),
      y_(y),
      taps_(taps),
      row_stride_(shape.strides[0]),
      column_stride_(shape.strides[1]),
      rows_(meetings(x, y, taps, shape, 0)),
      columns_(meetings(x, y, taps, shape, 1)) {}

Desc DepthwiseGradient::layout(const Shape& shape) {
  return {shape.dims(), data_type(DType::f32), Tag::aBcd16b};
}

void DepthwiseGradient::operator()(const float* x, const float* dy, float* dw, float* db) const {
  const int64_t channels = x_[1];
  const int64_t blocks = (channels + kBlock - 1) / kBlock;
  const int64_t x_image = x_[2] * x_[3] * kBlock;
  const int64_t dy_image = y_[2] * y_[3] * kBlock;
  const int64_t high = taps_[0];
  const int64_t wide = taps_[1];
  parallel_for(blocks * high, 1, [&](int64_t begin, int64_t end) {
    std::vector<Lanes> sums(static_cast<size_t>(wide));
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t block = unit / high;
      const int64_t tap = unit % high;
      const int64_t lanes = std::min(kBlock, channels - block * kBlock);
      std::fill(sums.begin(), sums.end(), Lanes{});
      add_row({x + block * x_image, dy + block * dy_image, x_[0], blocks * x_image, blocks * dy_image,
               x_[3] * kBlock, y_[3] * kBlock, row_stride_, column_stride_, rows_[static_cast<size_t>(tap)],
               &columns_},
              sums.data());
      for (int64_t lane = 0; lane < lanes; ++lane)
        for (int64_t column = 0; column < wide; ++column)
          dw[((block * kBlock + lane) * high + tap) * wide + column] =
              sums[static_cast<size_t>(column)][static_cast<size_t>(lane)];
      if (db == nullptr || tap != 0) continue;
      Lanes bias{};
      for (int64_t n = 0; n < x_[0]; ++n)
        add_outputs(dy + (n * blocks + block) * dy_image, y_[2] * y_[3], bias);
      std::copy_n(bias.begin(), lanes, db + block * kBlock);
    }
  });
}

}  // namespace telar::cpu
