#include "telar/runtime/shares.h"

#include <gtest/gtest.h>

#include <numeric>

namespace telar {
namespace {

TEST(Shares, PartsSumToTheBatchAndFollowTheShares) {
  EXPECT_EQ(split_by_shares(32, {1, 1}), (std::vector<int64_t>{16, 16}));
  EXPECT_EQ(split_by_shares(31, {1, 1}), (std::vector<int64_t>{16, 15}));
  EXPECT_EQ(split_by_shares(32, {3, 1}), (std::vector<int64_t>{24, 8}));
  EXPECT_EQ(split_by_shares(2, {1, 1, 1, 1}), (std::vector<int64_t>{1, 1, 0, 0}));
  EXPECT_EQ(split_by_shares(0, {1, 1}), (std::vector<int64_t>{0, 0}));
  for (int64_t total = 0; total < 100; ++total) {
    const auto parts = split_by_shares(total, {0.3, 5, 1.7});
    EXPECT_EQ(std::accumulate(parts.begin(), parts.end(), int64_t{0}), total);
  }
}

TEST(Shares, MeasuredSpeedMovesTheSplit) {
  MeasuredShares shares({1, 1});
  for (int step = 0; step < 40; ++step) {
    const auto parts = split_by_shares(64, shares.shares());
    // The first replica is three times as fast.
    shares.record(parts, {static_cast<double>(parts[0]) / 3000, static_cast<double>(parts[1]) / 1000});
  }
  EXPECT_EQ(split_by_shares(64, shares.shares()), (std::vector<int64_t>{48, 16}));
}

TEST(Shares, FollowAReplicaThatStandsStillEveryFewSteps) {
  // Steps of 1 ms. The second replica's processor is shared: it stands still for 4 ms in one of four steps,
  // so it is half as fast.
  MeasuredShares shares({1, 1});
  for (int step = 0; step < 2000; ++step) {
    const auto parts = split_by_shares(64, shares.shares());
    std::vector<double> seconds;
    for (const int64_t part : parts) seconds.push_back(static_cast<double>(part) / 32'000);
    if (step % 4 == 0) seconds[1] *= 5;
    shares.record(parts, seconds);
  }
  EXPECT_EQ(split_by_shares(64, shares.shares()), (std::vector<int64_t>{43, 21}));
}

TEST(Shares, OfAGpuAndACpuAreProportionalToTheirSpeeds) {
  const auto settled = [](double gpu, double processor) {
    MeasuredShares shares({15, 1});
    for (int step = 0; step < 40; ++step) {
      const auto parts = split_by_shares(256, shares.shares());
      shares.record(parts, {static_cast<double>(parts[0]) / gpu, static_cast<double>(parts[1]) / processor});
    }
    return split_by_shares(256, shares.shares());
  };
  EXPECT_EQ(settled(50'000, 1000), (std::vector<int64_t>{251, 5}));
  EXPECT_EQ(settled(50'000, 50), (std::vector<int64_t>{256, 0}));
}

TEST(Shares, AReplicaWithoutSamplesIsMeasuredWithOne) {
  MeasuredShares shares({30, 1, 1});
  const std::vector<double> speeds = {3000, 1000, 2000};
  EXPECT_EQ(split_by_shares(12, shares.shares()), (std::vector<int64_t>{11, 1, 0}));
  for (int step = 0; step < 600; ++step) {
    const auto parts = split_by_shares(12, shares.shares());
    std::vector<double> seconds;
    for (size_t i = 0; i < parts.size(); ++i) seconds.push_back(static_cast<double>(parts[i]) / speeds[i]);
    shares.record(parts, seconds);
  }
  EXPECT_EQ(split_by_shares(12, shares.shares()), (std::vector<int64_t>{6, 2, 4}));
  MeasuredShares few({30, 1});
  for (int step = 0; step < 20; ++step) few.record({1, 0}, {0.001, 0});
  EXPECT_EQ(split_by_shares(1, few.shares()), (std::vector<int64_t>{1, 0}));
}

TEST(Shares, NoiseDoesNotMoveTheSplit) {
  MeasuredShares shares({1, 1});
  for (int step = 0; step < 100; ++step) {
    const double noise = step % 2 == 0 ? 1.05 : 0.97;
    shares.record({32, 32}, {0.010 * noise, 0.010 / noise});
  }
  EXPECT_EQ(shares.shares(), (std::vector<double>{1, 1}));
}

TEST(Shares, APartHasNoneOrAsManySamplesAsItNeeds) {
  EXPECT_EQ(split_by_shares(5, {1, 1, 1, 1}, 2), (std::vector<int64_t>{3, 2, 0, 0}));
  EXPECT_EQ(split_by_shares(8, {1, 1, 1, 1}, 2), (std::vector<int64_t>{2, 2, 2, 2}));
  EXPECT_EQ(split_by_shares(32, {31, 1}, 2), (std::vector<int64_t>{32, 0}));
  EXPECT_EQ(split_by_shares(1, {1, 1}, 2), (std::vector<int64_t>{1, 0}));
  for (int64_t total = 2; total < 100; ++total) {
    const auto parts = split_by_shares(total, {0.3, 5, 1.7, 0}, 2);
    EXPECT_EQ(std::accumulate(parts.begin(), parts.end(), int64_t{0}), total);
    for (const int64_t part : parts) EXPECT_NE(part, 1) << total;
  }
}

TEST(Shares, MeasuredPartsNeverShrinkToASingleSample) {
  MeasuredShares shares({1, 1, 0}, 2);
  for (int step = 0; step < 400; ++step) {
    const auto parts = split_by_shares(16, shares.shares(), 2);
    std::vector<double> seconds;  // the second is 40 times slower
    for (size_t i = 0; i < parts.size(); ++i) {
      EXPECT_NE(parts[i], 1) << step;
      seconds.push_back(static_cast<double>(parts[i]) / (i == 1 ? 100 : 4000));
    }
    shares.record(parts, seconds);
  }
  EXPECT_EQ(split_by_shares(16, shares.shares(), 2), (std::vector<int64_t>{8, 0, 8}));
}

}  // namespace
}  // namespace telar
