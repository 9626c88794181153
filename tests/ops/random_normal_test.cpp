#include "telar/graph/ops/random_normal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/run_graph.h"
#include "support/sentences.h"
#include "telar/core/random.h"

namespace telar::test {

namespace {

constexpr int64_t kNormalItem = 1001;  // odd, so that the last pair has one number

std::vector<float> draw_normal(const std::vector<int64_t>& samples, int32_t epoch = 3,
                               const std::string& scope = "noise") {
  GraphBuilder builder;
  const auto batch = static_cast<int64_t>(samples.size());
  const ValueId sample = builder.input("sample", {DType::i32, {batch, 2}}, true);
  const ValueId random = builder.input("random", {DType::i32, {4}}, false);
  builder.set_scope(scope);
  builder.output("y", random_normal(builder, {kNormalItem}, sample, random));
  GraphRun run(builder.build());
  std::vector<int32_t> ids;
  for (const int64_t id : samples) {
    ids.push_back(static_cast<int32_t>(id));
    ids.push_back(static_cast<int32_t>(id >> 32));
  }
  run.set_input("sample", std::span<const int32_t>(ids));
  const std::vector<int32_t> words{7, 0, epoch, 0};
  run.set_input("random", std::span<const int32_t>(words));
  run.run();
  return run.output("y");
}

std::vector<float> numbers_of(const std::vector<float>& numbers, size_t n) {
  const auto begin = numbers.begin() + static_cast<ptrdiff_t>(n * kNormalItem);
  return {begin, begin + kNormalItem};
}

}  // namespace

TEST(RandomNormal, HasTheMomentsAndTheTailsOfTheNormalDistribution) {
  std::vector<int64_t> samples(200);
  std::iota(samples.begin(), samples.end(), 0);
  const std::vector<float> numbers = draw_normal(samples);
  const auto count = static_cast<double>(numbers.size());
  double sum = 0;
  double squares = 0;
  double fourths = 0;
  for (const double z : numbers) {
    sum += z;
    squares += z * z;
    fourths += z * z * z * z;
  }
  EXPECT_NEAR(sum / count, 0, 5 / std::sqrt(count));
  EXPECT_NEAR(squares / count, 1, 5 * std::sqrt(2 / count));
  EXPECT_NEAR(fourths / count, 3, 5 * std::sqrt(96 / count));
  for (const double z : {0.5, 1.0, 2.0, 3.0}) {
    const double right = std::erfc(z / std::sqrt(2.0)) / 2;
    const auto above = static_cast<double>(
        std::count_if(numbers.begin(), numbers.end(), [&](float number) { return number > z; }));
    EXPECT_NEAR(above / count, right, 5 * std::sqrt(right / count)) << z;
  }
}

TEST(RandomNormal, IsThePairOfThePhiloxWords) {
  const std::string stream = "noise.random_normal";
  const NormalRule rule(stream_of(stream.data(), stream.size()), std::vector<int32_t>{7, 0, 3, 0}.data());
  const std::vector<int32_t> id{5, 1};
  const auto numbers = draw_normal({(int64_t{1} << 32) + 5});
  for (const size_t block : {0U, 1U, 499U}) {
    const auto words = rule.philox(rule.counter(block, id.data()));
    const auto pair = normal_pair(words[0], words[1]);
    EXPECT_NEAR(numbers[2 * block], pair[0], 1e-5F);
    EXPECT_NEAR(numbers[2 * block + 1], pair[1], 1e-5F);
  }
}

TEST(RandomNormal, DependsOnTheSampleNotOnItsPosition) {
  const auto forwards = draw_normal({4, 9, int64_t{1} << 40});
  const auto backwards = draw_normal({int64_t{1} << 40, 9, 4});
  for (size_t n = 0; n < 3; ++n) EXPECT_EQ(numbers_of(forwards, n), numbers_of(backwards, 2 - n));
  EXPECT_NE(numbers_of(forwards, 0), numbers_of(forwards, 1));
}

TEST(RandomNormal, DiffersBetweenEpochsAndLayers) {
  EXPECT_NE(draw_normal({1}, 3), draw_normal({1}, 4));
  EXPECT_NE(draw_normal({1}, 3, "a"), draw_normal({1}, 3, "b"));
  EXPECT_EQ(draw_normal({1}, 3, "a"), draw_normal({1}, 3, "a"));
}

TEST(RandomNormal, RefusesOtherInputs) {
  GraphBuilder builder;
  const ValueId random = builder.input("random", {DType::i32, {4}}, false);
  const ValueId words = builder.input("words", {DType::i32, {3, 4}}, true);
  const std::string sentence = sentence_of([&] { random_normal(builder, {2}, words, random); });
  EXPECT_NE(sentence.find("sample ids are i32 [3, 4]"), std::string::npos) << sentence;
}

}  // namespace telar::test
