#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <set>
#include <thread>

#include "data/support.h"
#include "telar/data/arrays/idx.h"
#include "telar/data/cached.h"
#include "telar/data/in_memory.h"
#include "telar/data/moments.h"
#include "telar/data/normalised.h"
#include "telar/data/pictures/augmented.h"
#include "telar/data/subset.h"

namespace telar::test {
namespace {

/// Images [2, 3, 4] with distinct pixel values: 1000 × sample + 1 … 24.
class Pixels : public Dataset {
 public:
  explicit Pixels(int64_t size) : size_(size) {
    spec_.features = {2, 3, 4};
    spec_.classes = 10;
  }
  int64_t size() const override { return size_; }
  const SampleSpec& spec() const override { return spec_; }
  void read(int64_t index, const SampleKey& /*key*/, std::span<std::byte> features,
            std::span<std::byte> label) const override {
    ++reads;
    const auto out = as_floats(features);
    std::iota(out.begin(), out.end(), static_cast<float>(1000 * index + 1));
    as_ints(label)[0] = static_cast<int32_t>(index % 10);
  }
  mutable std::atomic<int> reads = 0;

 private:
  int64_t size_;
  SampleSpec spec_;
};

// Mean and standard deviation of the 10,000 test images, computed with NumPy.
TEST(Normalised, RealImagesGetMeanZeroAndDeviationOne) {
  const DatasetPtr data =
      normalised(open_idx_folder(fashion_mnist(), Split::test), {0.28684928071F}, {0.35244415325F});
  double sum = 0;
  double squares = 0;
  for (int64_t i = 0; i < data->size(); ++i) {
    for (const float value : read(*data, i).values) {
      sum += value;
      squares += static_cast<double>(value) * value;
    }
  }
  const double count = static_cast<double>(data->size()) * 784;
  EXPECT_NEAR(sum / count, 0, 1e-5);
  EXPECT_NEAR(std::sqrt(squares / count), 1, 1e-5);
}

TEST(Normalised, EachChannelHasItsOwnMeanAndDeviation) {
  const auto inner = std::make_shared<Pixels>(1);
  const DatasetPtr data = normalised(inner, {1, 13}, {2, 4});
  const Sample sample = read(*data, 0);
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_FLOAT_EQ(sample.values[i], static_cast<float>(i) / 2);
    EXPECT_FLOAT_EQ(sample.values[12 + i], static_cast<float>(i) / 4);
  }
  expect_error([&] { normalised(inner, {1, 2, 3}, {1, 2, 3}); }, {"2 channels", "3 means"});
  expect_error([&] { normalised(inner, {1}, {0}); }, {"std 0"});
  expect_error([&] { normalised(inner, {NAN}, {1}); }, {"nan"});
}

/// One wide feature a sample.
DatasetPtr wide(const std::vector<double>& values) {
  SampleSpec spec;
  spec.features = {1};
  spec.wide = true;
  spec.classes = 1;
  return in_memory(spec, bytes_of(values), 0, bytes_of(std::vector<int32_t>(values.size())));
}

TEST(Normalised, WideFeaturesAreRoundedAfterwards) {
  const DatasetPtr seconds = wide({1.7e9 + 1, 1.7e9 + 2, 1.7e9 + 3});
  const DatasetPtr data = normalised(seconds, {1.7e9 + 2}, {0.5});
  EXPECT_FALSE(data->spec().wide);
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(read(*data, i).values[0], static_cast<float>(2 * i - 2));
  EXPECT_EQ(read(*normalised(wide({3e-38}), {0}, {1e-38}), 0).values[0], 3) << "1e-38 has no f32 reciprocal";
  EXPECT_EQ(read(*without_width(seconds), 0).values[0], 1.7e9F);
}

TEST(Normalised, AsBeforeNumbersAreRoundedFirst) {
  const DatasetPtr data = normalised(wide({1.7e9 + 1}), {1.7e9 + 2}, {0.5}, Normalising::rounded);
  EXPECT_EQ(read(*data, 0).values[0], 1.7e9F * 2 + -1.7e9F / 0.5F);
}

TEST(Normalised, F32FeaturesFarFromTheirMeanKeepTheirDigits) {
  const auto far = std::make_shared<Numbers>(20'000'000, 1);
  const DatasetPtr data = normalised(far, {16'000'001}, {0.5});
  EXPECT_EQ(read(*data, 16'000'000).values[0], -2);
  EXPECT_EQ(read(*data, 16'000'002).values[0], 2);
}

TEST(MomentSums, LoseNoDigitsToLargeMeans) {
  const Moments moments = moments_of(moment_sums(*wide({1.7e9 + 1, 1.7e9 + 2, 1.7e9 + 3})));
  EXPECT_EQ(moments.mean[0], 1.7e9 + 2);
  EXPECT_NEAR(moments.std[0], std::sqrt(2.0 / 3), 1e-9);
  EXPECT_TRUE(moments.constant.empty());
}

TEST(MomentSums, OnlyAConstantHasTheDeviationOne) {
  const Moments small = moments_of(moment_sums(*wide({1e-7, 3e-7})));
  EXPECT_NEAR(small.std[0], 1e-7, 1e-15);
  const Moments constant = moments_of(moment_sums(*wide(std::vector<double>(7, 0.1))));
  EXPECT_EQ(constant.mean[0], 0.1);
  EXPECT_EQ(constant.std[0], 1);
  EXPECT_EQ(constant.constant, (std::vector<size_t>{0}));
}

TEST(MomentSums, ThoseOfPartsMakeThoseOfAll) {
  std::vector<double> values;
  for (int i = 0; i < 100; ++i) values.push_back(1e6 + i * i);
  MomentSums parts;
  parts.add(moment_sums(*wide({values.begin(), values.begin() + 7})));
  parts.add(moment_sums(*wide({values.begin() + 7, values.end()})));
  const Moments all = moments_of(moment_sums(*wide(values)));
  EXPECT_NEAR(moments_of(parts).mean[0] / all.mean[0], 1, 1e-15);
  EXPECT_NEAR(moments_of(parts).std[0] / all.std[0], 1, 1e-12);
}

TEST(MomentSums, SomeSamplesAreChosenBySeedNotByPeriod) {
  const auto number = std::make_shared<Numbers>(40'000, 1);
  const MomentSums one = moment_sums(*number, 2000, 1);
  EXPECT_EQ(one.values, 2000);
  EXPECT_NEAR(one.mean[0], 19'999.5, 1500);
  EXPECT_EQ(moment_sums(*number, 2000, 1).mean, one.mean);
  EXPECT_NE(moment_sums(*number, 2000, 2).mean, one.mean);
}

/// The expected augmentation, computed independently: each pixel is looked up in the padded image.
std::vector<float> window(const std::vector<float>& image, int64_t dy, int64_t dx, bool mirror) {
  std::vector<float> out;
  for (int64_t c = 0; c < 2; ++c) {
    for (int64_t y = 0; y < 3; ++y) {
      for (int64_t x = 0; x < 4; ++x) {
        const int64_t row = y + dy;
        const int64_t column = (mirror ? 3 - x : x) + dx;
        const bool inside = row >= 0 && row < 3 && column >= 0 && column < 4;
        out.push_back(inside ? image[static_cast<size_t>((c * 3 + row) * 4 + column)] : 0);
      }
    }
  }
  return out;
}

TEST(Augmented, GivesEveryWindowAndMirrorAboutEquallyOften) {
  const auto inner = std::make_shared<Pixels>(1);
  const DatasetPtr data = augmented(inner, {.padding = 2, .flip = true});
  EXPECT_TRUE(data->random());
  const std::vector<float> image = read(*inner, 0).values;
  std::vector<std::vector<float>> possible;
  for (int64_t dy = -2; dy <= 2; ++dy) {
    for (int64_t dx = -2; dx <= 2; ++dx) {
      for (const bool mirror : {false, true}) possible.push_back(window(image, dy, dx, mirror));
    }
  }
  std::vector<int> seen(possible.size());
  constexpr uint32_t kEpochs = 10000;
  for (uint32_t epoch = 0; epoch < kEpochs; ++epoch) {
    const auto values = read(*data, 0, {.seed = 3, .epoch = epoch}).values;
    const auto found = std::find(possible.begin(), possible.end(), values);
    ASSERT_NE(found, possible.end()) << "epoch " << epoch;
    ++seen[static_cast<size_t>(found - possible.begin())];
  }
  // 50 windows; each is expected 200 times, with a standard deviation of 14.
  EXPECT_GT(*std::min_element(seen.begin(), seen.end()), 130);
  EXPECT_LT(*std::max_element(seen.begin(), seen.end()), 270);
}

TEST(Augmented, DependsOnSeedEpochAndSampleOnly) {
  const DatasetPtr data = augmented(std::make_shared<Pixels>(64), {.padding = 1, .flip = true});
  const auto all = [&](const SampleKey& key) {
    std::vector<float> values;
    for (int64_t i = 63; i >= 0; --i) {
      const Sample sample = read(*data, i, key);
      for (const float value : sample.values)
        values.push_back(value == 0 ? 0 : value - static_cast<float>(1000 * i));
    }
    return values;
  };
  const auto first = all({.seed = 1, .epoch = 0});
  EXPECT_EQ(first, all({.seed = 1, .epoch = 0}));
  EXPECT_NE(first, all({.seed = 2, .epoch = 0}));
  EXPECT_NE(first, all({.seed = 1, .epoch = 1}));
  std::set<std::vector<float>> different;
  for (size_t i = 0; i < 64; ++i) different.emplace(first.begin() + 24 * i, first.begin() + 24 * (i + 1));
  EXPECT_GT(different.size(), 10U);
}

TEST(Augmented, RejectsDataThatIsNotAnImage) {
  expect_error([] { augmented(std::make_shared<Numbers>(3), {.padding = 1}); }, {"images", "[3]"});
  expect_error([] { augmented(std::make_shared<Pixels>(3), {.padding = 4}); }, {"padding of 4", "0 … 3"});
}

TEST(Cached, ReadsEachSampleOnce) {
  const auto inner = std::make_shared<Pixels>(20);
  const DatasetPtr data = cached(inner);
  for (int pass = 0; pass < 3; ++pass) {
    for (int64_t i = 0; i < 20; ++i) EXPECT_EQ(read(*data, i), read(Pixels(20), i));
  }
  EXPECT_EQ(inner->reads, 20);
}

TEST(Cached, StaysWithinItsMemoryLimit) {
  const auto inner = std::make_shared<Pixels>(20);
  const DatasetPtr data = cached(inner, 5 * (24 * 4 + 4) + 99);
  for (int pass = 0; pass < 3; ++pass) {
    for (int64_t i = 0; i < 20; ++i) EXPECT_EQ(read(*data, i), read(Pixels(20), i));
  }
  EXPECT_EQ(inner->reads, 5 + 3 * 15);
}

TEST(Cached, ManyThreadsSeeWholeSamples) {
  const DatasetPtr data = cached(std::make_shared<Pixels>(500));
  std::atomic<int> wrong = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&data, &wrong] {
      for (int pass = 0; pass < 3; ++pass) {
        for (int64_t i = 0; i < 500; ++i) {
          if (read(*data, i) != read(Pixels(500), i)) ++wrong;
        }
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

TEST(Cached, RefusesToFreezeAugmentation) {
  const DatasetPtr random = augmented(std::make_shared<Pixels>(3), {.flip = true});
  expect_error([&] { cached(random); }, {"augmented"});
  expect_error([&] { cached(normalised(random, {0}, {1})); }, {"augmented"});
}

TEST(EvenSamples, AreTheFirstOrSomeOfAll) {
  const auto data = std::make_shared<Numbers>(10);
  const DatasetPtr first = even_samples(data, {3, 3});
  EXPECT_EQ(first->size(), 3);
  EXPECT_EQ(read(*first, 2).values[0], 2);
  const DatasetPtr even = even_samples(data, {10, 4});
  EXPECT_EQ(even->size(), 4);
  const std::vector<float> found = {read(*even, 0).values[0], read(*even, 1).values[0],
                                    read(*even, 2).values[0], read(*even, 3).values[0]};
  EXPECT_EQ(found, (std::vector<float>{0, 2, 5, 7}));
}

TEST(Subset, RejectsANumberThatNoSampleHas) {
  expect_error([] { subset(std::make_shared<Numbers>(10), {3, 10}); }, {"no sample 10"});
}

TEST(ByLabel, SortsByClassAndKeepsTheOrderWithinAClass) {
  const DatasetPtr sorted = by_label(std::make_shared<Pixels>(25));
  ASSERT_EQ(sorted->size(), 25);
  std::vector<int> samples;
  for (int64_t i = 0; i < sorted->size(); ++i)
    samples.push_back(static_cast<int>(read(*sorted, i).values[0]) / 1000);
  EXPECT_EQ(std::vector<int>(samples.begin(), samples.begin() + 6), (std::vector<int>{0, 10, 20, 1, 11, 21}));
  EXPECT_EQ(samples.back(), 19);
}

}  // namespace
}  // namespace telar::test
