#include "telar/train/publish.h"

#include <gtest/gtest.h>

#include "support/sentences.h"

namespace telar::test {
namespace {

TEST(PublishRate, MayRise) {
  const PublishRate even = publish_rate("5000");
  EXPECT_EQ(even.due(0), 0);
  EXPECT_EQ(even.due(2.5), 12'500);
  const PublishRate rising = publish_rate("1000..5000/30s");
  EXPECT_EQ(rising.at(0), 1000);
  EXPECT_EQ(rising.at(15), 3000);
  EXPECT_EQ(rising.at(31), 5000);
  // The sum over many short times, each at the rate that the promise says.
  double sum = 0;
  constexpr double kShort = 1e-3;
  for (int i = 0; i < 40'000; ++i) {
    const double time = (i + 0.5) * kShort;
    sum += kShort * (time < 30 ? 1000 + 4000 * time / 30 : 5000);
  }
  EXPECT_NEAR(rising.due(40), sum, 1e-3);
  EXPECT_NEAR(publish_rate("8..2/0.5s").due(0.5), 2.5, 1e-12) << "it may fall, too";
}

TEST(PublishRate, MistakesAreSentences) {
  for (const char* text : {"", "0", "-5", "fast", "5000x", "1000..", "1000..5000", "1000..5000/30",
                           "..5000/30s", "1000..5000/s", "1..2..3/4s", "1e99", "nan"})
    expect_error([&] { publish_rate(text); }, {"the rate is '", "as 1000..5000/30s"});
}

}  // namespace
}  // namespace telar::test
