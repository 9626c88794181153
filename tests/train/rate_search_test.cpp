#include "telar/train/rate_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <random>

#include "io/temp_folder.h"
#include "support/sentences.h"
#include "telar/train/job_reader.h"
#include "telar/train/run.h"

namespace telar {
namespace {

using test::expect_error;

/// The loss is flat, falls with the logarithm of the rate between `begin` and `end`, and grows beyond.
std::vector<RatePoint> falling(double begin, double end, double to) {
  std::vector<RatePoint> points;
  for (double rate = 1e-6; rate < to; rate *= 1.1) {
    const double fallen = std::log(std::clamp(rate, begin, end) / begin) / std::log(end / begin);
    const double loss = 2 - 1.5 * fallen + (rate > end ? rate / end - 1 : 0);
    points.push_back({rate, loss, loss});
  }
  return points;
}

TEST(FoundRates, TheFallAndTheLowest) {
  const auto found = found_rates(falling(1e-3, 1e-1, 1));
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->half, 1e-2, 2e-3);
  EXPECT_NEAR(found->lowest, 1e-1, 1e-2);
  EXPECT_GE(found->suggested, 0.1 * found->lowest);
  EXPECT_LE(found->suggested, 0.25 * found->lowest);
}

TEST(FoundRates, ALossThatFallsToTheEndIsNoReasonForAGreatRate) {
  std::vector<RatePoint> points;
  for (double rate = 1e-6; rate < 10; rate *= 1.1) {
    const double loss = 1 / (1 + rate / 1e-3);
    points.push_back({rate, loss, loss});
  }
  const auto found = found_rates(points);
  ASSERT_TRUE(found);
  EXPECT_GT(found->lowest, 5);
  EXPECT_NEAR(found->half, 1e-3, 2e-4);
  EXPECT_LE(found->suggested, 10 * found->half);
}

TEST(FoundRates, NoneWithoutAFall) {
  EXPECT_FALSE(found_rates({}));
  EXPECT_FALSE(found_rates(falling(1, 2, 0.9)));
  EXPECT_FALSE(found_rates(falling(1e-7, 2e-7, 1)));  // it only grows
}

TEST(FoundRates, NoneInLossesThatOnlyDiffer) {
  int found = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::mt19937 chance(seed);
    std::normal_distribution<> normal(1, 0.25);
    std::vector<RatePoint> points;
    double mean = 0;
    double weight = 0;
    for (double rate = 1e-6; rate < 10; rate *= 1.084) {
      const double loss = normal(chance);
      mean = 0.9 * mean + 0.1 * loss;
      weight = 0.9 * weight + 0.1;
      points.push_back({rate, loss, mean / weight});
    }
    found += found_rates(points).has_value() ? 1 : 0;
  }
  EXPECT_LE(found, 5);
}

class RateSearches : public testing::Test {
 protected:
  RateSearches() {
    std::ofstream table(folder_ / "table.csv");
    table << "a,b,label\n";
    for (int i = 0; i < 400; ++i) {
      const double a = std::sin(0.7 * i);
      const double b = std::cos(1.3 * i);
      table << a << ',' << b << ',' << (a + b > 0 ? 1 : 0) << '\n';
    }
  }
  Job job(const std::vector<std::string>& overrides = {}) const {
    std::vector<std::string> all = {"output.folder=" + (folder_ / "run").string()};
    all.insert(all.end(), overrides.begin(), overrides.end());
    return parse_job("model: {name: mlp, options: {hidden: [8]}}\ndata: {source: csv, test: 0.2, path: " +
                         (folder_ / "table.csv").string() +
                         "}\noptimizer: {name: sgd, learning_rate: 0.5}\ntraining: {epochs: 4, batch: 16}\n",
                     "job.yaml", all);
  }
  test::TempFolder folder_;
};

TEST_F(RateSearches, TheRatesGrowByOneFactorAndTheSuggestedOneTrains) {
  int64_t watched = 0;
  const RateSearch search = search_rate(
      job(), {.from = 1e-4, .to = 1e4, .steps = 120, .watch = [&](const RatePoint&, int64_t step) {
                watched = step;
              }});
  ASSERT_GT(search.points.size(), 20U);
  EXPECT_EQ(watched, static_cast<int64_t>(search.points.size()));
  EXPECT_NEAR(search.points.front().rate, 1e-4, 1e-10);
  for (size_t i = 1; i < search.points.size(); ++i)
    EXPECT_NEAR(search.points[i].rate / search.points[i - 1].rate, std::pow(1e8, 1.0 / 119), 1e-4);
  EXPECT_EQ(search.end, RateSearch::End::diverged);
  ASSERT_TRUE(search.found);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
  const auto loss_at = [&](double rate) {
    const RunSummary run =
        run_job(job({fmt::format("optimizer.learning_rate={}", rate),
                     fmt::format("output.folder={}", (folder_ / fmt::format("{}", rate)).string())}),
                {});
    return run.test.front();
  };
  const double found = loss_at(search.found->suggested);
  EXPECT_LT(found, 0.5);
  EXPECT_LT(found, loss_at(search.found->suggested / 100));
}

/// Batches differ more from each other than the first rates change, and the first one may be a hard one.
TEST_F(RateSearches, BatchesThatDifferAreNoFall) {
  std::mt19937 chance(1);
  std::normal_distribution<> normal;
  {
    std::ofstream table(folder_ / "table.csv");
    table << "a,b,c,d,label\n";
    for (int i = 0; i < 8000; ++i) {
      const double a = normal(chance);
      table << a << ',' << normal(chance) << ',' << normal(chance) << ',' << normal(chance) << ','
            << (a + normal(chance) > 0 ? 1 : 0) << '\n';
    }
  }
  for (int seed = 1; seed <= 20; ++seed) {
    const auto found =
        search_rate(
            job({"model.options.hidden=[]", "training.batch=32", fmt::format("training.seed={}", seed)}), {})
            .found;
    ASSERT_TRUE(found) << seed;
    EXPECT_GT(found->suggested, 0.01) << seed;
    EXPECT_LT(found->suggested, 2) << seed;
  }
}

TEST_F(RateSearches, TheFirstLossIsThatOfTheTraining) {
  std::vector<double> losses;
  struct First final : TrainingObserver {
    std::optional<double> loss;
    void step_done(const StepReport& report, const TrainingState& /*state*/) override {
      if (!loss) loss = report.sums[0] / static_cast<double>(report.samples);
    }
  } first;
  run_job(job(), {.observer = &first});
  for (const char* strategy : {"strategy=single", "strategy={name: mirrored, replicas: 2}"})
    EXPECT_NEAR(search_rate(job({strategy}), {.steps = 20}).points.front().loss, *first.loss, 1e-6);
}

TEST_F(RateSearches, ASuggestionIsOfTheRateThatTheJobNames) {
  const RateSearch search = search_rate(
      job({"strategy={name: mirrored, replicas: 2}", "schedule.scale=linear", "training.batch_per=worker"}),
      {.steps = 20});
  EXPECT_DOUBLE_EQ(search.scale, 2);
}

TEST_F(RateSearches, AStopEndsIt) {
  int64_t steps = 0;
  const RateSearch search =
      search_rate(job(), {.stop_requested = [&] { return steps >= 7; },
                          .watch = [&](const RatePoint&, int64_t step) { steps = step; }});
  EXPECT_EQ(search.end, RateSearch::End::stopped);
  EXPECT_EQ(search.points.size(), 7U);
  EXPECT_FALSE(search.found);
}

TEST_F(RateSearches, WhatCannotBeSearchedIsSaid) {
  expect_error([&] { search_rate(job(), {.from = 1, .to = 0.1}); },
               {"the first must be above 0, and below the second"});
  expect_error([&] { search_rate(job(), {.steps = 5}); }, {"at least 20"});
  expect_error([&] { search_rate(job({"strategy=downpour"}), {}); }, {"--set strategy=mirrored"});
}

}  // namespace
}  // namespace telar
