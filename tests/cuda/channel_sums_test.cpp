#include "telar/device/cuda/loops/channel_sums.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "cuda/fakes.h"
#include "cuda/run_loop.h"
#include "ops/run_graph.h"
#include "telar/core/buffer.h"
#include "telar/device/cuda/loops/channels.h"

namespace telar::test {

namespace {

struct Extents {
  int64_t images, channels, pixels;
};

void expect_sums(const Extents& of, bool last, DType dtype) {
  SCOPED_TRACE(testing::Message() << of.images << " x " << of.channels << " x " << of.pixels
                                  << (last ? " channels last " : " plain ") << name_of(dtype));
  const auto count = static_cast<size_t>(of.images * of.channels * of.pixels);
  const std::vector<float> given = numbers(static_cast<int64_t>(count), 3);
  Buffer x(count * size_of(dtype));
  std::vector<double> wanted(static_cast<size_t>(of.channels));
  std::vector<double> sizes(wanted.size());
  for (size_t i = 0; i < count; ++i) {
    store(x.data(), dtype == DType::bf16, i, given[i]);
    const auto at = static_cast<int64_t>(i);
    const auto channel = static_cast<size_t>(last ? at % of.channels : at / of.pixels % of.channels);
    const double value = load(x.data(), dtype == DType::bf16, i);
    wanted[channel] += value;
    sizes[channel] += std::abs(value);
  }
  std::vector<float> pieces(static_cast<size_t>(cuda::channel_sum_pieces(of.images, of.channels, of.pixels)));
  std::vector<float> sums(wanted.size(), NAN);
  run_loop([&](cudaStream_t stream) {
    return cuda::sum_channels(x.data(), dtype, of.images, of.channels, of.pixels, last, pieces.data(),
                              sums.data(), stream);
  });
  for (size_t c = 0; c < wanted.size(); ++c) EXPECT_NEAR(sums[c], wanted[c], 1e-6 * sizes[c]) << c;
}

}  // namespace

TEST(ChannelSums, AreThoseOfEachChannel) {
  // A single value; channels and pixels that allow wide access and others; several pieces, some of which are
  // shorter.
  const std::vector<Extents> all{{1, 1, 1},   {3, 5, 7},     {4, 16, 9},    {70, 24, 1},    {70, 3, 1},
                                 {2, 8, 400}, {5, 64, 1001}, {3, 33, 3000}, {1, 1, 100000}, {999, 256, 1}};
  for (const Extents& of : all)
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const bool last : {false, true}) expect_sums(of, last, dtype);
}

TEST(ChannelSums, AreComputedInPiecesThatFillAGpuButAreFewBesideTheValues) {
  EXPECT_EQ(cuda::channel_pieces(1, 64, 1), 1);
  EXPECT_EQ(cuda::channel_pieces(256, 64, 56 * 56), 528);
  EXPECT_EQ(cuda::channel_pieces(256, 2048, 7 * 7), 128);
  EXPECT_EQ(cuda::channel_pieces(8, 1 << 20, 1), 8);
  EXPECT_EQ(cuda::pieces_of({256, 64, 56 * 56, true}), 528);
  EXPECT_EQ(cuda::pieces_of({256, 64, 56 * 56, false}), 196);
  EXPECT_EQ(cuda::pieces_of({3, 5, 7, false}), 1);
}

}  // namespace telar::test
