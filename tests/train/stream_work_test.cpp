#include "telar/train/stream_work.h"

#include <gtest/gtest.h>

#include <memory>

#include "support/memory_log.h"
#include "telar/data/stream_batches.h"

namespace telar {
namespace {

using test::MemoryTopic;

class StreamWorkOf {
 public:
  StreamWorkOf(MemoryTopic& topic, bool by_arrival, double linger) {
    StreamOptions options;
    options.format.spec.features = {1};
    options.format.spec.classes = 2;
    options.batch = 4;
    options.starts.assign(topic.partitions(), 0);
    options.by_arrival = by_arrival;
    stream = std::make_unique<StreamBatches>(std::make_unique<test::MemoryLog>(topic), std::move(options));
    work.emplace(*stream, linger);
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
  EXPECT_EQ(work.lag(), 9);
  const Position start = work.position();
  const StreamWork::Place second = work.done(11);
  EXPECT_EQ(work.position(), start) << "the first step is not done yet";
  const StreamWork::Place first = work.done(10);
  EXPECT_EQ(first.at, start);
  EXPECT_EQ(first.after, second.at);
  EXPECT_EQ(work.position(), second.after);
  EXPECT_EQ(work.lag(), 1);
  add(topic, 100);
  EXPECT_EQ(work.extend(0, 0).size(), 2U) << "the range ends";
  EXPECT_EQ(work.existing(), 109);

  work.begin({.first = 0, .end = 1000, .position = second.after});
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

}  // namespace
}  // namespace telar
