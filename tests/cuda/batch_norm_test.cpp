#include "telar/device/cuda/loops/batch_norm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "cuda/fakes.h"
#include "cuda/run_loop.h"
#include "ops/run_graph.h"
#include "telar/core/buffer.h"

namespace telar::test {

namespace {

constexpr float kEpsilon = 1e-5F;

struct Case {
  cuda::Channels of;
  DType dtype;
  bool relu;

  bool bf16() const { return dtype == DType::bf16; }
  size_t values() const { return static_cast<size_t>(of.length() * of.channels); }
  size_t channels() const { return static_cast<size_t>(of.channels); }
  size_t channel(size_t i) const {
    const auto at = static_cast<int64_t>(i);
    return static_cast<size_t>(of.last ? at % of.channels : at / of.pixels % of.channels);
  }
};

/// A single channel and value; channels and pixels that allow wide access and others; several pieces.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const auto& [images, channels, pixels] : {std::array<int64_t, 3>{2, 1, 1},
                                                 {3, 5, 7},
                                                 {5, 16, 8},
                                                 {70, 24, 1},
                                                 {2, 8, 4400},
                                                 {3, 33, 900},
                                                 {3, 3, 4001}}) {
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const bool last : {false, true})
        for (const bool relu : {false, true})
          all.push_back({{images, channels, pixels, last || pixels == 1}, dtype, relu});
  }
  return all;
}

Buffer stored(const Case& given, uint64_t stream, float offset) {
  Buffer memory(given.values() * size_of(given.dtype));
  const std::vector<float> found = numbers(static_cast<int64_t>(given.values()), stream);
  for (size_t i = 0; i < found.size(); ++i) store(memory.data(), given.bf16(), i, found[i] + offset);
  return memory;
}

Buffer stored(std::vector<float> values) {
  Buffer memory(values.size() * sizeof(float));
  std::copy(values.begin(), values.end(), memory.as<float>().begin());
  return memory;
}

/// A batch norm forwards and backwards, by the loops and by the formulas in f64.
class BatchNormLoops : public ::testing::TestWithParam<size_t> {
 protected:
  BatchNormLoops() : given(cases()[GetParam()]) {}

  float* floats(Buffer& memory) { return memory.as<float>().data(); }
  double value(const Buffer& memory, size_t i) const { return load(memory.data(), given.bf16(), i); }
  void expect_near(const Buffer& found, size_t i, double wanted) {
    EXPECT_NEAR(value(found, i), wanted, (given.bf16() ? 1e-2 : 2e-5) * (1 + std::abs(wanted))) << i;
  }
  /// The mean of a term over each channel.
  template <typename Term>
  std::vector<double> means(const Term& term) const {
    std::vector<double> found(given.channels());
    for (size_t i = 0; i < given.values(); ++i)
      found[given.channel(i)] += term(i) / static_cast<double>(given.of.length());
    return found;
  }

  Case given;
  Buffer x = stored(given, 1, 30);  // far from 0: with plain sums of squares, digits would cancel
  Buffer dy = stored(given, 2, 0);
  Buffer scale = stored(numbers(given.of.channels, 3));
  Buffer shift = stored(numbers(given.of.channels, 4));
  Buffer pieces{static_cast<size_t>(cuda::batch_norm_pieces(given.of)) * sizeof(float)};
  Buffer y{given.values() * size_of(given.dtype)};
  std::vector<Buffer> numbers_of_channels = [&] {
    std::vector<Buffer> made;
    for (int i = 0; i < 7; ++i) made.emplace_back(given.channels() * sizeof(float));
    return made;
  }();
};

}  // namespace

TEST_P(BatchNormLoops, ComputeTheFormulasForwardsAndBack) {
  SCOPED_TRACE(testing::Message() << given.of.images << " x " << given.of.channels << " x " << given.of.pixels
                                  << (given.of.last ? " channels last " : " plain ") << name_of(given.dtype)
                                  << (given.relu ? " relu" : ""));
  std::vector<Buffer>& own = numbers_of_channels;
  const cuda::BatchStatisticsMemory to{floats(own[0]), floats(own[1]), floats(own[2]), floats(own[3]),
                                       floats(own[4])};
  const cuda::Normalisation by{to.kept_mean, to.kept_inverse, floats(scale), to.kept_shift};
  const cuda::BatchNormGradients gradients{floats(own[5]), floats(own[6]), nullptr};
  run_loop([&](cudaStream_t stream) {
    return cuda::batch_statistics(x.data(), given.dtype, given.of, kEpsilon, floats(shift), floats(pieces),
                                  to, stream);
  });
  run_loop([&](cudaStream_t stream) {
    return cuda::normalise(x.data(), given.dtype, given.of, by, given.relu, y.data(), stream);
  });
  const auto length = static_cast<double>(given.of.length());
  const auto mean = means([&](size_t i) { return value(x, i); });
  const auto variance = means([&](size_t i) { return std::pow(value(x, i) - mean[given.channel(i)], 2); });
  for (size_t c = 0; c < given.channels(); ++c) {
    EXPECT_NEAR(to.mean[c], mean[c], 1e-5 * std::abs(mean[c])) << c;
    EXPECT_NEAR(to.variance[c], variance[c] * length / (length - 1), 1e-5 * (1 + variance[c])) << c;
  }
  const auto normal = [&](size_t i) {
    return (value(x, i) - mean[given.channel(i)]) / std::sqrt(variance[given.channel(i)] + kEpsilon);
  };
  const auto before_relu = [&](size_t i) {
    return scale.as<float>()[given.channel(i)] * normal(i) + shift.as<float>()[given.channel(i)];
  };
  for (size_t i = 0; i < given.values(); ++i)
    expect_near(y, i, given.relu ? std::max(0.0, before_relu(i)) : before_relu(i));

  // Uses the sign from the loops: where the sum is 0 except for rounding, both signs are correct.
  const auto through = [&](size_t i) { return given.relu && value(y, i) <= 0 ? 0 : value(dy, i); };
  const auto shift_mean = means(through);
  const auto scale_mean = means([&](size_t i) { return through(i) * normal(i); });
  std::vector<double> wanted;
  for (size_t i = 0; i < given.values(); ++i) {
    const size_t c = given.channel(i);
    wanted.push_back(scale.as<float>()[c] / std::sqrt(variance[c] + kEpsilon) *
                     (through(i) - shift_mean[c] - normal(i) * scale_mean[c]));
  }
  run_loop([&](cudaStream_t stream) {
    return cuda::batch_norm_sums(x.data(), dy.data(), given.dtype, given.of, by, given.relu, floats(pieces),
                                 gradients, stream);
  });
  for (size_t c = 0; c < given.channels(); ++c) {
    EXPECT_NEAR(gradients.scale[c], scale_mean[c] * length, 1e-5 * length) << c;
    EXPECT_NEAR(gradients.shift[c], shift_mean[c] * length, 1e-5 * length) << c;
  }
  run_loop([&](cudaStream_t stream) {
    return cuda::batch_norm_slopes(x.data(), dy.data(), given.dtype, given.of, by, given.relu,
                                   gradients.scale, gradients.shift, static_cast<float>(1 / length),
                                   dy.data(), stream);
  });
  for (size_t i = 0; i < given.values(); ++i) expect_near(dy, i, wanted[i]);
}

INSTANTIATE_TEST_SUITE_P(Cases, BatchNormLoops, ::testing::Range<size_t>(0, cases().size()));

}  // namespace telar::test
