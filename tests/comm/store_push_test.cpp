#include <algorithm>
#include <cstring>
#include <limits>

#include "store_fixture.h"
#include "telar/io/payload.h"

namespace telar {
namespace {

constexpr size_t kPushedFloats = 600'000;  // two whole blocks and part of a third

TEST_F(StoreTest, ReadsWhatWasWritten) {
  const auto server = serve();
  const auto client = attached(*server, kPushedFloats);
  const std::vector<float> parameters = values(kPushedFloats, 1, 0.5F);
  client->write("", parameters, 0);
  std::vector<float> read(kPushedFloats);
  connect(*server, 2)->read("", read);
  EXPECT_EQ(read, parameters);
  client->read("steps", read);
  EXPECT_EQ(read, std::vector<float>(kPushedFloats));
  EXPECT_EQ(client->slots(), std::vector<std::string>{"steps"});
}

TEST_F(StoreTest, EveryPayloadBringsWhatWasPushed) {
  const auto server = serve();
  const auto client = attached(*server, kPushedFloats);
  std::vector<float> expected(kPushedFloats);
  for (const PayloadType& type : payload_types()) {
    std::vector<float> pushed = values(kPushedFloats, 1, 0.25F);
    std::vector<float> rest(kPushedFloats);
    type.payload->choose(pushed, rest, 0.02, true);
    std::ranges::copy(pushed, client->outgoing().begin());
    StoreExchange exchange = whole(*client);
    exchange.learning_rate = 1;
    exchange.samples = 1;
    exchange.payload = payload_number(type.name);
    const uint64_t sent = client->traffic().sent;
    client->start(exchange);
    EXPECT_TRUE(client->finish().finite);
    EXPECT_LT(client->traffic().sent - sent, kPushedFloats * sizeof(float) * 6 / 10) << type.name;
    for (size_t i = 0; i < kPushedFloats; ++i) expected[i] -= pushed[i];
    ASSERT_TRUE(std::ranges::equal(client->incoming(), expected)) << type.name;
  }
}

TEST_F(StoreTest, PushUpdatesAndPullBringsTheResult) {
  const auto server = serve();
  const auto client = attached(*server, kPushedFloats);
  std::vector<float> expected = values(kPushedFloats, 1, 0.25F);
  client->write("", expected, 7);
  for (int step = 1; step <= 3; ++step) {
    for (size_t i = 0; i < kPushedFloats; ++i) client->outgoing()[i] = static_cast<float>(i % 7);
    StoreExchange exchange = whole(*client);
    exchange.learning_rate = 0.5F;
    exchange.samples = 4;
    client->start(exchange);
    const StoreReport report = client->finish();
    EXPECT_TRUE(report.finite);
    EXPECT_FALSE(report.late);
    for (size_t i = 0; i < kPushedFloats; ++i) expected[i] -= 0.5F * (static_cast<float>(i % 7) / 4);
    ASSERT_EQ(0, std::memcmp(expected.data(), client->incoming().data(), kPushedFloats * sizeof(float)));
  }
  std::vector<float> steps(kPushedFloats);
  client->read("steps", steps);
  EXPECT_EQ(steps, std::vector<float>(kPushedFloats, 10)) << "the number of the last update";
}

TEST_F(StoreTest, EachFloatCountsItsOwnUpdates) {
  const auto server = serve();
  const auto client = attached(*server, 1024);
  fill(*client, 0);
  for (const auto& [begin, end] : {std::pair<size_t, size_t>{0, 512}, {512, 1024}, {0, 1024}, {256, 768}}) {
    StoreExchange exchange = whole(*client);
    exchange.begin = begin;
    exchange.end = end;
    client->start(exchange);
    client->finish();
  }
  std::vector<float> steps(1024);
  client->read("steps", steps);
  EXPECT_EQ(steps[0], 2);
  EXPECT_EQ(steps[300], 3);
  EXPECT_EQ(steps[700], 3);
  EXPECT_EQ(steps[1000], 2);
}

TEST_F(StoreTest, TransfersSmallPiecesOneByOne) {
  const auto server = serve();
  const auto client = attached(*server, 4096);
  fill(*client, 1);
  for (size_t begin = 0; begin < 4096; begin += 1024) {
    StoreExchange exchange = whole(*client);
    exchange.begin = begin;
    exchange.end = begin + 1024;
    client->start(exchange);
  }
  client->finish();
  for (const float value : client->incoming()) ASSERT_EQ(value, -1);
}

TEST_F(StoreTest, StalenessCountsTheUpdatesOfOthersSincePull) {
  const auto server = serve();
  const auto one = attached(*server, kPushedFloats, 1);
  const auto two = attached(*server, kPushedFloats, 2);
  StoreExchange pull = whole(*one);
  pull.push = false;
  one->start(pull);
  EXPECT_EQ(one->finish().staleness, 0);
  for (int i = 0; i < 3; ++i) {
    two->start(whole(*two));
    EXPECT_EQ(two->finish().staleness, 0);
  }
  one->start(whole(*one));
  EXPECT_EQ(one->finish().staleness, 3);
  one->start(whole(*one));
  EXPECT_EQ(one->finish().staleness, 0);
}

TEST_F(StoreTest, NaNIsReported) {
  const auto server = serve();
  const auto client = attached(*server, kPushedFloats);
  client->start(whole(*client));
  EXPECT_TRUE(client->finish().finite);
  client->outgoing()[kPushedFloats - 100] = std::numeric_limits<float>::quiet_NaN();
  client->start(whole(*client));
  EXPECT_FALSE(client->finish().finite);
}

TEST_F(StoreTest, ManyMembersPushAtOnceAndNothingIsLost) {
  const auto server = serve();
  const auto first = attached(*server, kPushedFloats, 1);
  constexpr int kMembers = 4;
  constexpr int kPushes = 10;
  std::vector<std::thread> threads;
  for (uint32_t member = 1; member <= kMembers; ++member) {
    threads.emplace_back([&, member] {
      const auto client = connect(*server, member);
      client->attach();
      fill(*client, -1);
      for (int i = 0; i < kPushes; ++i) {
        client->start(whole(*client));
        client->finish();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<float> all(kPushedFloats);
  first->read("", all);
  EXPECT_EQ(all, std::vector<float>(kPushedFloats, kMembers * kPushes));
}

}  // namespace
}  // namespace telar
