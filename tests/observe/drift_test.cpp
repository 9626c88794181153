#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "support/paths.h"
#include "support/sanitizers.h"
#include "telar/observe/adwin.h"
#include "telar/observe/page_hinkley.h"
#include "telar/observe/stream_means.h"

namespace telar {
namespace {

constexpr double kDelta = 0.002;

/// Sequences and where the papers' definitions find a drift: tests/fixtures/drift/make_drift.py.
const nlohmann::json& drift_fixture() {
  static const nlohmann::json fixture =
      nlohmann::json::parse(std::ifstream(test::fixtures() + "/drift/drift.json"));
  return fixture;
}

std::vector<double> values_of(const nlohmann::json& sequence) {
  std::vector<double> values;
  for (const auto& thousandths : sequence.at("thousandths"))
    values.push_back(thousandths.get<double>() / 1000);
  return values;
}

std::vector<double> one(double value) { return {value}; }

TEST(Adwin, FindsTheDriftsOfItsDefinition) {
  size_t found = 0;
  for (const auto& [name, sequence] : drift_fixture().items()) {
    Adwin adwin;
    std::vector<int64_t> drifts;
    std::vector<int64_t> lengths;
    const std::vector<double> values = values_of(sequence);
    for (size_t i = 0; i < values.size(); ++i) {
      if (adwin.add(kDelta, one(values[i]))) drifts.push_back(static_cast<int64_t>(i));
      if (i % 50 == 49) lengths.push_back(adwin.size());
    }
    EXPECT_EQ(drifts, sequence.at("adwin").get<std::vector<int64_t>>()) << name;
    EXPECT_EQ(lengths, sequence.at("adwin_lengths").get<std::vector<int64_t>>()) << name;
    found += drifts.size();
  }
  EXPECT_GE(found, 3U);
}

TEST(Adwin, LooksAtTheValuesOfAStepTogether) {
  constexpr size_t kTogether = 20;
  size_t found = 0;
  for (const auto& [name, sequence] : drift_fixture().items()) {
    Adwin adwin;
    std::vector<int64_t> drifts;
    const std::vector<double> values = values_of(sequence);
    for (size_t step = 0; step < values.size() / kTogether; ++step) {
      if (adwin.add(kDelta, std::span(values).subspan(step * kTogether, kTogether)))
        drifts.push_back(static_cast<int64_t>(step));
    }
    EXPECT_EQ(drifts, sequence.at("adwin_together").get<std::vector<int64_t>>()) << name;
    found += drifts.size();
  }
  EXPECT_GE(found, 3U);
}

TEST(Adwin, KeepsAFewBucketsOfManyValues) {
  Adwin adwin;
  std::mt19937 random(3);
  std::uniform_int_distribution<int> percent(0, 99);
  double sum = 0;
  constexpr int kValues = 5000;
  for (int i = 0; i < kValues; ++i) {
    const double value = percent(random) / 100.0;
    sum += value;
    EXPECT_FALSE(adwin.add(kDelta, one(value)));
  }
  EXPECT_EQ(adwin.size(), kValues);
  EXPECT_NEAR(adwin.mean(), sum / kValues, 1e-12);
  size_t buckets = 0;
  for (const auto& row : adwin.rows) {
    EXPECT_LE(row.size(), Adwin::kMost);
    buckets += row.size();
  }
  EXPECT_LE(buckets, 60U);
}

TEST(Adwin, ForgetsAnImprovementWithoutADrift) {
  Adwin adwin;
  for (int i = 0; i < 200; ++i) EXPECT_FALSE(adwin.add(kDelta, one(i < 100 ? 0.9 : 0.1))) << i;
  EXPECT_LE(adwin.size(), 110);  // of 200
  EXPECT_NEAR(adwin.mean(), 0.1, 0.05);
}

TEST(PageHinkley, FindsTheDriftsOfItsDefinitionAndOfRiver) {
  size_t found = 0;
  for (const auto& [name, sequence] : drift_fixture().items()) {
    PageHinkley detector;
    std::vector<int64_t> drifts;
    const std::vector<double> values = values_of(sequence);
    for (size_t i = 0; i < values.size(); ++i) {
      if (detector.add({.threshold = 5}, one(values[i]))) drifts.push_back(static_cast<int64_t>(i));
    }
    EXPECT_EQ(drifts, sequence.at("page_hinkley").get<std::vector<int64_t>>()) << name;
    EXPECT_EQ(drifts, sequence.at("river_page_hinkley").get<std::vector<int64_t>>()) << name;
    found += drifts.size();
  }
  EXPECT_GE(found, 3U);
}

TEST(StreamMeans, AreThoseOfTheNewestBatchesAndOfFadingWeights) {
  StreamMeans means;
  const StreamMeanOptions options{.window = 10, .fading = 0.9};
  struct Added {
    int64_t samples;
    double sum;
  };
  std::vector<Added> all;
  std::mt19937 random(5);
  for (int i = 0; i < 60; ++i) {
    const auto samples = static_cast<int64_t>(1 + random() % 6);
    const double sum = static_cast<double>(random() % 1000) / 100;
    all.push_back({samples, sum});
    means.add(options, std::vector<double>{sum, 2 * sum}, samples);

    double in_window = 0;
    int64_t window = 0;
    for (auto at = all.rbegin(); at != all.rend() && window < options.window; ++at) {
      in_window += at->sum;
      window += at->samples;
    }
    EXPECT_NEAR(means.windowed()[0], in_window / static_cast<double>(window), 1e-12);
    EXPECT_NEAR(means.windowed()[1], 2 * means.windowed()[0], 1e-12);

    double faded = 0;
    double weights = 0;
    int64_t age = 0;
    for (size_t b = all.size(); b > 0; age += all[--b].samples) {
      const double weight = std::pow(options.fading, static_cast<double>(age));
      faded += weight * all[b - 1].sum;
      weights += weight * static_cast<double>(all[b - 1].samples);
    }
    EXPECT_NEAR(means.fading()[0], faded / weights, 1e-12);
  }
}

TEST(StreamMeans, AWindowThatGrowsHasFewBucketsToo) {
  StreamMeans means;
  const std::vector<double> sums{1};
  for (const int64_t window : {511, 100'000, 1'000'000})
    for (int n = 0; n < (test::kSanitized ? 110'000 : 400'000); ++n) means.add({.window = window}, sums, 1);
  EXPECT_LE(std::ssize(means.buckets), 2 * StreamMeans::kBucketsInWindow) << "as checkpoints have them";
  EXPECT_DOUBLE_EQ(means.windowed()[0], 1);
}

TEST(StreamMeans, ALongWindowHasFewBuckets) {
  StreamMeans means;
  const StreamMeanOptions options{.window = 100'000};
  for (int i = 0; i < 20'000; ++i) means.add(options, std::vector<double>{i < 9'000 ? 1000.0 : 5.0}, 10);
  EXPECT_LE(means.buckets.size(), static_cast<size_t>(StreamMeans::kBucketsInWindow) + 2);
  EXPECT_EQ(means.windowed()[0], 0.5);
}

}  // namespace
}  // namespace telar
