#include "telar/io/payload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "support/sentences.h"
#include "telar/core/random.h"

namespace telar {
namespace {

using test::expect_error;

std::vector<float> gradient(size_t count, uint64_t seed) {
  RandomSequence random(seed, 1);
  std::vector<float> values(count);
  for (float& value : values) value = random.normal() * std::exp(4 * random.normal());
  return values;
}

const Payload& payload_named(const std::string& name) { return numbered_payload(payload_number(name)); }

TEST(Payload, NothingIsLost) {
  for (const PayloadType& type : payload_types()) {
    for (const size_t count : {1U, 100U, 5000U}) {
      for (const bool trained : {true, false}) {
        const std::vector<float> all = gradient(count, count);
        std::vector<float> pushed = all;
        std::vector<float> rest(count, 7);
        type.payload->choose(pushed, rest, 0.1, trained);
        for (size_t i = 0; i < count; ++i) EXPECT_EQ(pushed[i] + rest[i], all[i]) << type.name << " " << i;

        const std::vector<std::byte> bytes = type.payload->encode(pushed);
        if (bytes.empty()) continue;  // it is pushed as floats
        EXPECT_LT(bytes.size(), count * sizeof(float));
        std::vector<float> decoded(count, 9);
        type.payload->decode(bytes, decoded);
        EXPECT_EQ(decoded, pushed) << type.name;
      }
    }
  }
}

TEST(Payload, LargestPushesTheShareThatIsLargest) {
  const Payload& largest = payload_named("largest");
  std::vector<float> values = gradient(5000, 3);
  std::vector<float> sizes(values.size());
  std::ranges::transform(values, sizes.begin(), [](float value) { return std::abs(value); });
  std::ranges::sort(sizes, std::greater<>());
  std::vector<float> rest(values.size());
  largest.choose(values, rest, 0.01, true);
  EXPECT_EQ(std::ranges::count(values, 0.0F), 4950);
  for (const float value : values) EXPECT_TRUE(value == 0 || std::abs(value) >= sizes[49]) << value;
  EXPECT_EQ(largest.encode(values).size(), 50 * 8U);
}

TEST(Payload, LargestHasAsManyOfEqualValues) {
  std::vector<float> values(4000, -2);
  values[3999] = 3;
  std::vector<float> rest(values.size());
  payload_named("largest").choose(values, rest, 0.01, true);
  EXPECT_EQ(std::ranges::count(values, -2.0F), 39);
  EXPECT_EQ(values[3999], 3);
}

TEST(Payload, LargestPushesBiasesStatisticsAndWhatIsNotFinite) {
  const Payload& largest = payload_named("largest");
  const auto pushed = [&](std::vector<float> values, bool trained) {
    std::vector<float> rest(values.size());
    largest.choose(values, rest, 0.001, trained);
    return values;
  };
  EXPECT_EQ(pushed(gradient(1024, 1), true), gradient(1024, 1));
  EXPECT_EQ(pushed(gradient(5000, 1), false), gradient(5000, 1));
  std::vector<float> values = gradient(5000, 1);
  values[17] = std::numeric_limits<float>::quiet_NaN();
  values[4000] = -std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isnan(pushed(values, true)[17]));
  EXPECT_TRUE(std::isinf(pushed(values, true)[4000]));
}

TEST(Payload, DamagedBytesAreRefused) {
  const auto refused = [](const std::string& name, const std::vector<uint32_t>& words, size_t bytes,
                          const std::vector<std::string_view>& sentence) {
    std::vector<float> values(16);
    const auto all = std::as_bytes(std::span(words)).first(bytes);
    expect_error([&] { payload_named(name).decode(all, values); }, sentence);
  };
  refused("bf16", std::vector<uint32_t>(9), 33, {"16 values in bf16", "33 bytes"});
  refused("largest", {1, 2, 3}, 12, {"12 bytes", "16 values"});
  refused("largest", {3, 16, 0, 0}, 16, {"value 16 follows value 3 of 16"});
  refused("largest", {3, 3, 0, 0}, 16, {"value 3 follows value 3"});
  refused("largest", std::vector<uint32_t>(34), 136, {"136 bytes", "16 values"});
}

TEST(Payload, AnUnknownOneIsNamed) {
  EXPECT_EQ(payload_number(""), 0);
  expect_error([] { payload_number("smallest"); }, {"payload 'smallest'"}, Error::Kind::run);
}

}  // namespace
}  // namespace telar
