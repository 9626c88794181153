#include "telar/train/stream_work.h"

#include <gtest/gtest.h>

#include <memory>

#include "support/memory_log.h"
#include "telar/data/streams/stream_batches.h"

namespace telar {
namespace {

using test::MemoryTopic;

class StreamWorkOf {
 public:
  StreamWorkOf(MemoryTopic& topic, bool by_arrival, double linger, std::vector<int64_t> ends = {}) {
    StreamOptions options;
    options.format.spec.features = {1};
    options.format.spec.classes = 2;
    options.batch = 4;
    options.starts.assign(topic.partitions(), 0);
    options.ends = std::move(ends);
    options.by_arrival = by_arrival;
    stream = std::make_unique<StreamBatches>(std::make_unique<test::MemoryLog>(topic), std::move(options));
    work.emplace(*stream, linger, 1);
  }
  std::unique_ptr<StreamBatches> stream;
  std::optional<StreamWork> work;
};

void add(MemoryTopic& topic, int messages) {
  for (int i = 0; i < messages; ++i) topic.add(0, "12345");
}

TEST(StreamWork, StepsExistWithTheirMessagesAndAreDoneInAnyOrder) {
  MemoryTopic topic(1);
  StreamWorkOf of(topic, false, 0);
  StreamWork& work = *of.work;
  work.begin({.first = 10, .end = 14, .position = of.stream->begin(0)});
  EXPECT_EQ(work.extend(0, 0).size(), 0U);
  add(topic, 9);
  EXPECT_EQ(work.extend(0, 0).size(), 2U);
  EXPECT_EQ(work.lag(), 8) << "one message waits for others";
  const Position start = work.position();
  const StreamWork::Place second = work.done(11);
  EXPECT_EQ(work.lag(), 4);
  EXPECT_EQ(work.position(), start) << "the first step is not done yet";
  const StreamWork::Place first = work.done(10);
  EXPECT_EQ(first.at, start);
  EXPECT_EQ(first.after, second.at);
  EXPECT_EQ(work.position(), second.after);
  EXPECT_EQ(work.lag(), 0);
  add(topic, 100);
  EXPECT_EQ(work.extend(0, 0).size(), 2U) << "the range ends";
  EXPECT_EQ(work.existing(), 108) << "27 batches";
  EXPECT_EQ(work.lag(), 100);

  work.begin({.first = 0, .end = 1000, .position = second.after});
  EXPECT_EQ(work.existing(), 108) << "nothing has come meanwhile";
  EXPECT_EQ(work.extend(40, 0).size(), 24U) << "enough exist before workers ask for them";
}

TEST(StreamWork, ABatchClosesWhenAMessageHasWaitedAndNoOtherBatchWaits) {
  MemoryTopic topic(1);
  StreamWorkOf of(topic, true, 0.5);
  StreamWork& work = *of.work;
  work.begin({.end = 100});
  EXPECT_EQ(work.extend(0, 1.0).size(), 0U);
  add(topic, 1);
  EXPECT_EQ(work.extend(0, 2.0).size(), 0U);
  add(topic, 1);
  EXPECT_EQ(work.extend(0, 2.4).size(), 0U);
  EXPECT_EQ(work.extend(1, 2.6).size(), 0U) << "another batch waits for a worker";
  EXPECT_EQ(work.extend(0, 2.6).size(), 1U);
  const Position after = work.done(0).after;
  EXPECT_EQ(after, work.position());
  EXPECT_EQ(work.lag(), 0);
  EXPECT_EQ(work.extend(0, 9.0).size(), 0U) << "there is no message";
  add(topic, 6);
  EXPECT_EQ(work.extend(0, 9.1).size(), 1U) << "a full one";
  EXPECT_EQ(work.extend(0, 9.5).size(), 0U);
  EXPECT_EQ(work.extend(0, 9.7).size(), 1U);
}

TEST(StreamWork, MessagesOfAPartitionThatIsAheadCallForNoWorker) {
  MemoryTopic topic(2);
  StreamWorkOf of(topic, false, 0);
  StreamWork& work = *of.work;
  work.begin({.end = 1000, .position = of.stream->begin(0)});
  for (int i = 0; i < 10; ++i) topic.add(0, "12345");
  for (int i = 0; i < 5; ++i) topic.add(1, "12345");
  EXPECT_EQ(work.extend(0, 0).size(), 2U);
  EXPECT_EQ(work.lag(), 8);
  EXPECT_EQ(work.existing(), 8);
  for (int i = 0; i < 500; ++i) topic.add(0, "12345");
  work.extend(2, 0);
  EXPECT_EQ(work.lag(), 8);
  for (int i = 0; i < 295; ++i) topic.add(1, "12345");
  EXPECT_EQ(work.extend(2, 0).size(), 62U) << "the look-ahead is full";
  EXPECT_EQ(work.lag(), 600);
  work.done(0);
  work.done(2);
  EXPECT_EQ(work.lag(), 592);
  EXPECT_EQ(work.existing(), 600);
}

TEST(StreamWork, AnotherPassIsNotAnArrivalOfMessages) {
  MemoryTopic topic(1);
  add(topic, 10);
  StreamWorkOf of(topic, false, 0, {10});
  StreamWork& work = *of.work;
  work.begin({.end = 3});
  EXPECT_EQ(work.extend(0, 0).size(), 3U);
  EXPECT_EQ(work.lag(), 10) << "the last batch is smaller";
  for (int step = 0; step < 3; ++step) work.done(step);
  EXPECT_EQ(work.lag(), 0);
  EXPECT_EQ(work.existing(), 10);
  work.begin({.epoch = {.epoch = 1}, .end = 3});
  EXPECT_EQ(work.existing(), 10);
  work.extend(0, 1);
  EXPECT_EQ(work.lag(), 10);
  EXPECT_EQ(work.existing(), 10);
}

TEST(StreamWork, SaysOnceWhatIsMissingAfterTenSecondsWithoutSteps) {
  for (const bool by_arrival : {false, true}) {
    MemoryTopic topic(3);
    StreamWorkOf of(topic, by_arrival, 0);
    StreamWork& work = *of.work;
    topic.add(0, "12345");
    if (!by_arrival) topic.add(2, "12345");
    work.begin({.end = 100, .position = of.stream->begin(0)});
    for (const double now : {0.0, 5.0, 9.9}) {
      work.extend(0, now);
      EXPECT_FALSE(work.stalled());
    }
    work.extend(0, 10);
    EXPECT_EQ(work.stalled(), by_arrival ? "topic 'events': waiting for a message"
                                         : "topic 'events': waiting for partition 1");
    work.extend(0, 11);
    EXPECT_FALSE(work.stalled()) << "once";
    for (int i = 0; i < 2; ++i)
      for (const size_t p : {0U, 1U, 2U}) topic.add(p, "12345");
    work.extend(0, 12);
    for (const double now : {20.0, 30.0}) {
      work.extend(1, now);
      EXPECT_FALSE(work.stalled()) << "a step exists";
    }
    work.done(0);
    work.extend(0, 31);
    EXPECT_FALSE(work.stalled());
    work.extend(0, 41);
    EXPECT_TRUE(work.stalled()) << "again";
  }
}

TEST(StreamWork, TheReasonIsToldIfItIsKnown) {
  MemoryTopic topic(1);
  topic.trouble = "no broker answers";
  StreamWorkOf of(topic, true, 0);
  of.work->begin({.end = 100});
  of.work->extend(0, 0);
  of.work->extend(0, 10);
  EXPECT_EQ(of.work->stalled(), "topic 'events': waiting for a message: no broker answers");
}

}  // namespace
}  // namespace telar
