#include "telar/data/streams/stream_start.h"

#include <gtest/gtest.h>

#include "data/support.h"
#include "support/memory_log.h"

namespace telar::test {
namespace {

TEST(StreamStart, TimesAreThoseOfIso8601) {
  EXPECT_EQ(time_from("2026-11-24T18:00:00Z"), 1795543200000) << "date -d 2026-11-24T18:00:00Z +%s000";
  EXPECT_EQ(time_from("2026-11-24T18:00Z"), 1795543200000);
  EXPECT_EQ(time_from("2026-11-24 19:30:00+01:30"), 1795543200000);
  EXPECT_EQ(time_from("2026-11-24T10:00:00-0800"), 1795543200000);
  EXPECT_EQ(time_from("2026-11-24T18:00:00.25Z"), 1795543200250);
  EXPECT_EQ(time_from("2024-02-29T00:00Z"), 1709164800000) << "a leap year";
  EXPECT_EQ(time_from("1795543200000"), 1795543200000);
  EXPECT_EQ(time_from("0"), 0);
  expect_error([] { time_from("1969-12-31T23:59:59.999Z"); }, {"before 1970"});
  expect_error([] { time_from("-1"); }, {"is not a time"});  // to brokers, -1 means the latest
  expect_error([] { time_from("1795543200"); }, {"looks like seconds", "1795543200000"});
  expect_error([] { time_from("2026-11-24T18:00:00"); }, {"has no zone", "Z behind it for UTC"});
  for (const char* text :
       {"", "now", "2026-11-24", "2026-13-01T00:00Z", "2026-02-29T00:00Z", "2026-11-24T24:00Z",
        "2026-11-24T18:00:00Zulu", "2026-11-24T18:00+1:00", "26-11-24T18:00Z", "17955432000000000000000"})
    expect_error([&] { time_from(text); }, {"is not a time", "2026-11-24T18:00:00Z"});
}

/// Five messages in partition 0, two in partition 1; each is one millisecond later than that before it.
void fill_two_partitions(MemoryTopic& topic) {
  for (int n = 0; n < 5; ++n) topic.add(0, "m");
  for (int n = 0; n < 2; ++n) topic.add(1, "m");
}

std::vector<int64_t> starts_at(MemoryTopic& topic, int64_t time) {
  MemoryLog log(topic);
  return offsets_since(log, time, "THEN", log.ranges());
}

TEST(StreamStart, ATimeIsTheFirstMessageOfItOrTheEnd) {
  MemoryTopic topic(2);
  fill_two_partitions(topic);
  EXPECT_EQ(starts_at(topic, 0), (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(starts_at(topic, topic.created + 1), (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(starts_at(topic, topic.created + 3), (std::vector<int64_t>{3, 2})) << "the end of partition 1";
  expect_error([&] { starts_at(topic, topic.created + 5); },
               {"topic 'events' has no message of THEN or later", "data.start: latest"});
}

TEST(StreamStart, AWrongAnswerOfTheBrokersIsNotBelieved) {
  MemoryTopic topic(2);
  topic.answers_times = false;
  fill_two_partitions(topic);
  EXPECT_EQ(starts_at(topic, topic.created), (std::vector<int64_t>{0, 0})) << "this answer is right";
  expect_error(
      [&] { starts_at(topic, topic.created + 1); },
      {"partition 0: the brokers say that offset 0 is the first of THEN or later, but its message is older",
       "give offsets"});
}

}  // namespace
}  // namespace telar::test
