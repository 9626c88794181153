#include "telar/bench/advice.h"

#include <gtest/gtest.h>

#include "support/sentences.h"
#include "telar/bench/scaling.h"

namespace telar::bench {
namespace {

using test::says;

/// Epochs of 1000 samples with these accuracies. They take 0.99 and 1.01 × `seconds` in turn.
TrainingRun run_of(double seconds, const std::vector<double>& accuracies) {
  TrainingRun run;
  double now = 0;
  for (const double accuracy : accuracies) {
    const auto epoch = static_cast<int64_t>(run.curve.epochs.size()) + 1;
    now += seconds * (epoch % 2 == 0 ? 1.01 : 0.99);
    run.curve.epochs.push_back({epoch, 1000.0 * static_cast<double>(epoch), now, 0.5, accuracy});
  }
  return run;
}

Learned once(const std::string& name, double seconds, const std::vector<double>& accuracies) {
  return {name, {run_of(seconds, accuracies)}};
}

/// The same with these losses, and no accuracy.
Learned regression(const std::string& name, double seconds, const std::vector<double>& losses) {
  Learned learned = once(name, seconds, losses);
  for (CurvePoint& epoch : learned.rounds[0].curve.epochs) {
    epoch.loss = epoch.accuracy;
    epoch.accuracy.reset();
  }
  return learned;
}

constexpr Judges kJudges{10000, true};

TEST(Advice, ChoosesTheStrategyThatReachesTheCommonAccuracyFirst) {
  const std::string text =
      advice({once("single", 4, {0.7, 0.8, 0.871}), once("mirrored 2", 2, {0.7, 0.8, 0.874})}, kJudges);
  EXPECT_TRUE(says(text, "Choose mirrored 2")) << text;
  EXPECT_TRUE(says(text, "accuracy of 0.87")) << text;
  EXPECT_TRUE(says(text, "single took 12 s")) << text;
  EXPECT_TRUE(says(text, "2.00 times as long")) << text;
  EXPECT_TRUE(says(text, "no more than chance")) << text;
}

TEST(Advice, ChoosesTheSimplestWithinTheSpread) {
  const std::string text =
      advice({once("single", 2.01, {0.7, 0.8, 0.87}), once("mirrored 2", 2, {0.7, 0.8, 0.87})}, kJudges);
  EXPECT_TRUE(says(text, "Choose single")) << text;
  EXPECT_TRUE(says(text, "by less than 10 % or the spread: mirrored 2")) << text;
  const std::string clearly =
      advice({once("single", 2.1, {0.7, 0.8, 0.87}), once("mirrored 2", 2, {0.7, 0.8, 0.87})}, kJudges);
  EXPECT_TRUE(says(clearly, "Choose single")) << "no spread overlaps, but it takes 1.05 times as long";
}

TEST(Advice, ASingleEpochHasNoSpread) {
  const std::string text = advice({once("single", 2.5, {0.87}), once("mirrored 2", 2, {0.87})}, kJudges);
  EXPECT_TRUE(says(text, "Choose mirrored 2")) << text;
  EXPECT_TRUE(says(text, "one epoch has no spread, so these differences may be chance")) << text;
}

TEST(Advice, AWideSpreadDoesNotFavourAMuchSlowerStrategy) {
  Learned disturbed = once("single", 4, {0.7, 0.8, 0.87, 0.87});
  disturbed.rounds[0].curve.epochs[3].seconds = 12.2;  // one epoch of 0.2 s among epochs of 4 s
  const std::string text = advice({disturbed, once("mirrored 2", 2, {0.7, 0.8, 0.87, 0.87})}, kJudges);
  EXPECT_TRUE(says(text, "Choose mirrored 2")) << text;
  EXPECT_TRUE(says(text, "too wide to rule out that these are as fast: single")) << text;
}

TEST(Advice, DoesNotChooseAFasterStrategyWithWorseAccuracy) {
  const std::string text =
      advice({once("single", 4, {0.7, 0.8, 0.89}), once("downpour 2", 2, {0.7, 0.8, 0.81})}, kJudges);
  EXPECT_TRUE(says(text, "Choose single")) << text;
  EXPECT_TRUE(says(text, "downpour 2 at 0.8100")) << text;
  EXPECT_TRUE(says(text, "downpour 2 reached 0.81 faster")) << text;
  EXPECT_FALSE(says(text, "no more than chance")) << text;
}

TEST(Advice, GivesNoAdviceWithoutAChoice) {
  EXPECT_TRUE(says(advice({}, kJudges), "Nothing was measured"));
  EXPECT_TRUE(says(advice({once("single", 1, {0.5})}, kJudges), "Only single"));
  Learned diverged = regression("mirrored 2", 1, {0.5});
  diverged.rounds[0].curve.epochs[0].loss.reset();
  EXPECT_TRUE(says(advice({once("single", 1, {0.5}), diverged}, kJudges), "nothing to choose by"));
  Learned ended_badly = regression("mirrored 2", 1, {0.5, 0.4});
  ended_badly.rounds[0].curve.epochs[1].loss.reset();
  EXPECT_TRUE(says(advice({regression("single", 1, {0.5}), ended_badly}, kJudges),
                   "mirrored 2 ended without a finite loss"));
}

TEST(Advice, WithoutAnAccuracyTheLossDecides) {
  const std::string text =
      advice({regression("single", 4, {0.9, 0.5, 0.01234}), regression("mirrored 2", 2, {0.9, 0.5, 0.01231})},
             kJudges);
  EXPECT_TRUE(says(text, "Choose mirrored 2: it reached a loss of 0.0124, which all reached, after 5.98 s"))
      << text;
  EXPECT_TRUE(says(text, "single took 12 s")) << text;
  EXPECT_TRUE(says(text, "0.01231 to 0.01234, differ by no more than a tenth of the lowest")) << text;
  EXPECT_TRUE(says(text, "The loss decides, because not every training has an accuracy")) << text;
  const std::string worse =
      advice({regression("single", 4, {-1, -2}), regression("downpour 2", 2, {-1, -1.5})}, kJudges);
  EXPECT_TRUE(says(worse, "Choose single: it reached a loss of -1.5"))
      << "a density's loss may be negative: " << worse;
  EXPECT_TRUE(says(worse, "single had the lowest final loss, -2; these were higher")) << worse;
  EXPECT_TRUE(says(worse, "downpour 2 at -1.5.")) << worse;
  EXPECT_TRUE(says(worse, "downpour 2 reached -1.5 faster")) << worse;
}

TEST(Learned, TimeIsTheEndOfTheFirstEpochWithTheAccuracy) {
  Learned learned = once("x", 1, {0.5, 0.9, 0.6});
  EXPECT_DOUBLE_EQ(seconds_to(learned, kAccuracy, 0.8)->median, 0.99 + 1.01);
  EXPECT_FALSE(seconds_to(learned, kAccuracy, 0.95)) << "a target that was not reached has no time";
  EXPECT_DOUBLE_EQ(*final_value(learned, kAccuracy), 0.6);
  learned.rounds.push_back(run_of(2, {0.9, 0.9, 0.7}));
  learned.rounds.push_back(run_of(3, {0.5, 0.9, 0.8}));
  EXPECT_DOUBLE_EQ(seconds_to(learned, kAccuracy, 0.8)->least, 1.98);
  EXPECT_DOUBLE_EQ(seconds_to(learned, kAccuracy, 0.8)->most, 6);
  EXPECT_DOUBLE_EQ(*final_value(learned, kAccuracy), 0.7);
  EXPECT_DOUBLE_EQ(*reached_value(learned, kAccuracy), 0.9);
  learned.rounds.push_back(run_of(3, {0.5, 0.6}));
  EXPECT_FALSE(seconds_to(learned, kAccuracy, 0.8)) << "one round never reached it";
}

TEST(SweetSpot, IsWhereMoreWorkersNoLongerPay) {
  const auto at = [](int workers, double seconds) {
    return Scaled{fmt::format("{} workers", workers), workers, {seconds, 0.99 * seconds, 1.01 * seconds}};
  };
  const std::vector<Scaled> all = {at(1, 10), at(2, 5.5), at(4, 4.5), at(8, 4.4)};
  EXPECT_EQ(sweet_spot(all), 1U);
  const std::string text = sweet_spot_text(all, 0.8);
  EXPECT_TRUE(says(text, "The sweet spot is 2 workers: 5.5 s, 11 s of compute time")) << text;
  EXPECT_TRUE(says(text, "8 workers is faster (4.4 s) at 35.2 s")) << text;
  EXPECT_TRUE(says(text, "1 workers is cheaper (10 s of compute time)")) << text;
  EXPECT_FALSE(says(text, "as good")) << text;
  EXPECT_TRUE(says(sweet_spot_text({at(1, 10), {"other", 1, {10.1, 9, 11}}}, 0.8),
                   "as good, within the spread of the epochs' rates: other"));
  EXPECT_FALSE(sweet_spot({}));
  EXPECT_TRUE(says(sweet_spot_text({}, 0.8), "No setting reached an accuracy of 0.8"));
}

}  // namespace
}  // namespace telar::bench
