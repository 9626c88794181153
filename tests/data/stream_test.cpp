#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "data/support.h"
#include "support/memory_log.h"
#include "telar/core/random.h"
#include "telar/data/loader.h"
#include "telar/data/streams/leased_batches.h"
#include "telar/data/streams/stream_batches.h"

namespace telar::test {
namespace {

/// Samples of two bytes and one of 10 classes; sample n has the values n / 255 and the class n mod 10.
MessageFormat bytes_format() {
  MessageFormat format;
  format.dtype = "u8";
  format.spec.features = {2};
  format.spec.classes = 10;
  return format;
}

std::string message_of(int n) {
  const char byte = static_cast<char>(n);
  return {byte, byte, static_cast<char>(n % 10)};
}

/// Messages 0, 1, 2 … in turn, as long as their partition is not full.
void fill(MemoryTopic& topic, const std::vector<int>& sizes) {
  int n = 0;
  for (int row = 0; row < *std::ranges::max_element(sizes); ++row) {
    for (size_t p = 0; p < sizes.size(); ++p)
      if (row < sizes[p]) topic.add(p, message_of(n++));
  }
}

StreamOptions options_for(const MemoryTopic& topic, int64_t batch) {
  StreamOptions options;
  options.format = bytes_format();
  options.batch = batch;
  options.starts.assign(topic.partitions(), 0);
  return options;
}

StreamOptions until_now(const MemoryTopic& topic, int64_t batch) {
  StreamOptions options = options_for(topic, batch);
  for (size_t p = 0; p < topic.partitions(); ++p) options.ends.push_back(topic.range(p).end);
  return options;
}

std::unique_ptr<StreamBatches> stream_of(MemoryTopic& topic, StreamOptions options) {
  return std::make_unique<StreamBatches>(std::make_unique<MemoryLog>(topic), std::move(options));
}

/// The numbers of the samples, as their features say.
std::vector<int> numbers_in(Batch& batch) {
  std::vector<int> numbers;
  for (size_t i = 0; i < static_cast<size_t>(batch.size()); ++i) {
    float values[2];
    int32_t label = 0;
    std::memcpy(values, batch.data(0) + i * sizeof values, sizeof values);
    std::memcpy(&label, batch.data(1) + i * sizeof label, sizeof label);
    const int number = static_cast<int>(std::lround(values[1] * 255));
    EXPECT_EQ(values[0], values[1]);
    EXPECT_EQ(label, number % 10);
    numbers.push_back(number);
  }
  return numbers;
}

struct ReadBatch {
  Position at;
  std::vector<int> numbers;
  std::vector<int64_t> ids;
};

std::vector<ReadBatch> read_pass(const StreamBatches& stream, uint32_t pass) {
  std::vector<ReadBatch> batches;
  Batch batch(stream.tensors());
  for (Position at = stream.begin(pass); !stream.at_end(at); at = batch.after) {
    stream.read(at, batch);
    EXPECT_LT(at, batch.after) << "positions ascend";
    batches.push_back({at, numbers_in(batch), {batch.ids().begin(), batch.ids().end()}});
  }
  return batches;
}

std::vector<int> counted(int first, int end) {
  std::vector<int> numbers;
  for (int n = first; n < end; ++n) numbers.push_back(n);
  return numbers;
}

TEST(Stream, TakesOneMessageOfEachPartitionInTurnUntilItsEnd) {
  MemoryTopic topic(3);
  fill(topic, {5, 2, 4});
  const auto stream = stream_of(topic, until_now(topic, 4));
  EXPECT_EQ(stream->size(0)->batches, 3);
  EXPECT_EQ(stream->size(0)->samples, 11);
  for (const uint32_t pass : {0U, 1U}) {
    const std::vector<ReadBatch> batches = read_pass(*stream, pass);
    ASSERT_EQ(batches.size(), 3U);
    EXPECT_EQ(batches[0].numbers, counted(0, 4));
    EXPECT_EQ(batches[1].numbers, counted(4, 8));
    EXPECT_EQ(batches[2].numbers, counted(8, 11)) << "the last one is smaller";
    EXPECT_EQ(batches[0].ids, (std::vector<int64_t>{0, 1, 2, 3})) << "offset × partitions + partition";
    EXPECT_EQ(batches[2].ids, (std::vector<int64_t>{9, 11, 12}));
  }
}

TEST(Stream, APositionGivesTheSameBatchInAnyOrderAndInAnotherProcess) {
  MemoryTopic topic(3);
  fill(topic, {9, 7, 8});
  const std::vector<ReadBatch> batches = read_pass(*stream_of(topic, until_now(topic, 5)), 0);
  const auto another = stream_of(topic, until_now(topic, 5));
  Batch batch(another->tensors());
  for (const size_t i : {3U, 1U, 4U, 0U, 2U, 2U}) {
    another->read(batches[i].at, batch);
    EXPECT_EQ(numbers_in(batch), batches[i].numbers) << i;
  }
  const int64_t seeks = topic.seeks;
  another->read(another->begin(0), batch);
  for (int i = 0; i < 3; ++i) another->read(batch.after, batch);
  EXPECT_EQ(topic.seeks - seeks, 3) << "reading on needs no seek";
}

TEST(Stream, ThePartsOfProcessesAreTheBatch) {
  MemoryTopic topic(2);
  fill(topic, {10, 10});
  std::vector<std::vector<int>> parts(3);
  for (int64_t process = 0; process < 3; ++process) {
    StreamOptions options = until_now(topic, 7);
    options.part = {process, process + 1, 3};
    const auto stream = stream_of(topic, std::move(options));
    Batch batch(stream->tensors());
    for (Position at = stream->begin(0); !stream->at_end(at); at = batch.after) {
      stream->read(at, batch);
      EXPECT_EQ(batch.all_samples, stream->at_end(batch.after) ? 6 : 7);
      const std::vector<int> numbers = numbers_in(batch);
      parts[static_cast<size_t>(process)].insert(parts[static_cast<size_t>(process)].end(), numbers.begin(),
                                                 numbers.end());
    }
  }
  EXPECT_EQ(parts[0], (std::vector<int>{0, 1, 7, 8, 14, 15}));
  EXPECT_EQ(parts[1], (std::vector<int>{2, 3, 9, 10, 16, 17}));
  EXPECT_EQ(parts[2], (std::vector<int>{4, 5, 6, 11, 12, 13, 18, 19}));
}

TEST(Stream, WithoutAnEndItWaitsForMessages) {
  MemoryTopic topic(2);
  fill(topic, {2, 2});
  const auto stream = stream_of(topic, options_for(topic, 3));
  EXPECT_FALSE(stream->size(0));
  Batch batch(stream->tensors());
  stream->read(stream->begin(0), batch);
  const Position after = batch.after;
  EXPECT_FALSE(stream->at_end(after));
  EXPECT_EQ(stream->behind(after), 1);
  auto second = std::async(std::launch::async, [&] {
    Batch other(stream->tensors());
    stream->read(after, other);
    return numbers_in(other);
  });
  topic.add(0, message_of(4));
  topic.add(1, message_of(5));
  EXPECT_EQ(second.get(), counted(3, 6));
  EXPECT_THROW(stream->begin(1), Error);
  stream->stored(after);
  EXPECT_EQ(topic.used, (std::vector<int64_t>{2, 1}));
}

TEST(Stream, AWaitingReadStops) {
  MemoryTopic topic(2);
  fill(topic, {3, 1});
  {
    const auto stream = stream_of(topic, options_for(topic, 2));
    Loader loader(*stream, {.threads = 1, .prefetch = 2});
    loader.start(stream->begin(0));
    EXPECT_NE(loader.next(), nullptr);
    loader.start(stream->begin(0), 1);  // while the second batch is awaited
    EXPECT_NE(loader.next(), nullptr);
    EXPECT_EQ(loader.next(), nullptr);
  }
  std::atomic<bool> stop = false;
  StreamOptions options = options_for(topic, 2);
  options.stop_requested = [&] { return stop.load(); };
  const auto stream = stream_of(topic, std::move(options));
  Batch batch(stream->tensors());
  stream->read(stream->begin(0), batch);
  const Position second = batch.after;
  stop = true;
  EXPECT_THROW(stream->read(second, batch), ReadStopped);
  stop = false;
  topic.add(1, message_of(3));
  topic.add(0, message_of(4));
  stream->read(second, batch);
  EXPECT_EQ(batch.ids().front(), 2) << "what had been taken before the stop is taken again";
}

TEST(Stream, EndsAfterANumberOfMessages) {
  MemoryTopic topic(2);
  fill(topic, {4, 4});
  topic.add(0, message_of(8), 5);  // offsets 4 … 8 are missing
  StreamOptions options = options_for(topic, 4);
  options.messages = 9;
  const auto stream = stream_of(topic, std::move(options));
  const std::vector<ReadBatch> batches = read_pass(*stream, 0);
  ASSERT_EQ(batches.size(), 3U);
  EXPECT_EQ(batches[2].numbers, counted(8, 9));
  EXPECT_EQ(batches[2].ids, (std::vector<int64_t>{18}));
  expect_error([&] { read_pass(*stream_of(topic, until_now(topic, 4)), 0); },
               {"partition 0", "no messages from offset 4 to 8", "data.end: {messages: N}"});
}

TEST(Stream, APartitionThatEndsWithoutAMessageIsRefusedNotAwaited) {
  MemoryTopic topic(2);
  fill(topic, {2, 2});
  topic.add_marker(1);  // of a transaction; the end is 3, and offset 2 has no message
  for (const bool by_arrival : {false, true}) {
    StreamOptions options = until_now(topic, 5);
    options.by_arrival = by_arrival;
    const auto began = std::chrono::steady_clock::now();
    options.stop_requested = [&] {
      return std::chrono::steady_clock::now() - began > std::chrono::seconds(5);
    };
    expect_error([&] { read_pass(*stream_of(topic, std::move(options)), 0); },
                 {"partition 1", "no messages from offset 2 to 2", "data.end: {messages: N}"});
  }
}

TEST(Stream, ByArrivalASilentPartitionMakesNobodyWait) {
  MemoryTopic topic(3);
  for (int n = 0; n < 6; ++n) topic.add(n < 4 ? 2 : 0, message_of(n));
  StreamOptions options = options_for(topic, 3);
  options.by_arrival = options.audit = true;
  const auto stream = stream_of(topic, std::move(options));
  Batch batch(stream->tensors());
  stream->read(stream->begin(0), batch);
  const std::vector<int> first = numbers_in(batch);
  EXPECT_EQ(first, (std::vector<int>{4, 0, 5}));
  EXPECT_EQ(stream->uses(batch.after).used, (std::vector<UsedOffsets>{{0, 0, 2}, {2, 0, 1}}));
  EXPECT_TRUE(stream->uses(batch.after).left_out.empty());
  topic.add(1, message_of(9));
  stream->read(stream->begin(0), batch);
  EXPECT_EQ(numbers_in(batch), first) << "the batch that was read before";
  stream->read(batch.after, batch);
  EXPECT_EQ(numbers_in(batch), (std::vector<int>{9, 1, 2}));
}

TEST(Stream, ADamagedMessageStopsOrIsLeftOutAndCounted) {
  MemoryTopic topic(2);
  fill(topic, {2, 1});
  topic.add(1, "too long");
  topic.add(0, message_of(4));
  topic.add(1, std::string("\x01\x01\x63", 3));
  expect_error([&] { read_pass(*stream_of(topic, until_now(topic, 3)), 0); },
               {"topic 'events', partition 1, offset 1", "the message has 8 bytes",
                "u8 [2] and a label of 1 byte need 3", "data.on_error: skip"});
  std::vector<std::string> warnings;
  StreamOptions options = until_now(topic, 3);
  options.skip_damaged = true;
  options.warn = [&](const std::string& text) { warnings.push_back(text); };
  const auto stream = stream_of(topic, std::move(options));
  Batch batch(stream->tensors());
  stream->read(stream->begin(0), batch);
  EXPECT_EQ(batch.all_samples, 3);
  EXPECT_EQ(stream->left_out(batch.after), 0);
  stream->read(batch.after, batch);
  EXPECT_EQ(numbers_in(batch), (std::vector<int>{4}));
  EXPECT_EQ(batch.all_samples, 1) << "the others are left out";
  EXPECT_EQ(stream->left_out(batch.after), 2);
  ASSERT_EQ(warnings.size(), 2U);
  EXPECT_TRUE(says(warnings[1], "partition 1, offset 2: the label is 99; the classes are 0 … 9"));
}

TEST(Stream, ABatchWhoseMessagesAreAllDamagedHasNoSamples) {
  MemoryTopic topic(2);
  for (int n = 0; n < 6; ++n) topic.add(n % 2, n < 2 ? message_of(n) : "damaged");
  topic.add(0, message_of(6));
  for (const bool by_arrival : {false, true}) {
    StreamOptions options = until_now(topic, 2);
    options.skip_damaged = options.audit = true;
    options.by_arrival = by_arrival;
    const auto stream = stream_of(topic, std::move(options));
    const std::vector<ReadBatch> batches = read_pass(*stream, 0);
    ASSERT_EQ(batches.size(), 4U);
    EXPECT_EQ(batches[0].numbers.size(), 2U);
    EXPECT_TRUE(batches[1].numbers.empty() && batches[2].numbers.empty());
    EXPECT_EQ(batches[3].numbers, (std::vector<int>{6}));
    EXPECT_EQ(stream->left_out(batches[3].at), 4);
    const BatchUse use = stream->uses(batches[2].at);
    EXPECT_TRUE(use.used.empty());
    EXPECT_EQ(use.left_out, (std::vector<UsedOffsets>{{0, 1, 2}, {1, 1, 2}}));
    Batch batch(stream->tensors());
    stream->read(batches[1].at, batch);
    EXPECT_EQ(batch.all_samples, 0);
    stream->read_part(batches[1].at, batches[2].at, {1, 2, 2}, batch, {});
    EXPECT_EQ(batch.size(), 0);
  }
}

/// Whether 2,990 messages can be read, of which these are sound.
bool reads_damaged(int64_t batch, const std::vector<int>& sound) {
  MemoryTopic topic(1);
  for (int n = 0; n < 2990; ++n) topic.add(0, std::ranges::count(sound, n) > 0 ? message_of(1) : "damaged");
  StreamOptions options = until_now(topic, batch);
  options.skip_damaged = true;
  const auto stream = stream_of(topic, std::move(options));
  const std::string sentence = sentence_of([&] { read_pass(*stream, 0); });
  if (sentence.empty()) return true;
  EXPECT_TRUE(
      says(sentence, fmt::format("{} messages in a row are damaged", std::max<int64_t>(1000, batch))));
  EXPECT_TRUE(says(sentence, "the message has 7 bytes"));
  return false;
}

TEST(Stream, VeryManyDamagedMessagesInARowAreAnError) {
  EXPECT_TRUE(reads_damaged(1, {999, 1999}));
  EXPECT_TRUE(reads_damaged(64, {999, 1999}));
  EXPECT_FALSE(reads_damaged(1, {999, 2000}));
  EXPECT_TRUE(reads_damaged(2000, {1500})) << "at least a batch";
  EXPECT_FALSE(reads_damaged(2000, {0}));
}

/// A topic in memory that damaged messages are written to.
class MemorySink final : public MessageSink {
 public:
  struct Sent {
    int partition;
    std::string message;
    std::vector<MessageHeader> headers;
    bool null;
  };
  int partitions() const override { return 2; }
  using MessageSink::publish;
  bool publish(int partition, const NewMessage& message) override {
    sent.push_back({partition, std::string(message.value), message.headers, message.null});
    return true;
  }
  int64_t flush() override { return std::exchange(away, false) ? 1 : 0; }
  std::string trouble() const override { return ""; }

  std::vector<Sent> sent;
  bool away = false;  ///< at the next flush
};

/// "partition offset" of a dead letter.
std::string place_in(const std::vector<MessageHeader>& headers) {
  return headers.at(1).value + " " + headers.at(2).value;
}

TEST(Stream, DamagedMessagesAreStoredElsewhereBeforeTheirBatchIsGiven) {
  MemoryTopic topic(3);
  fill(topic, {3, 3, 3});
  topic.add(2, "damaged");
  topic.add(0, message_of(9));
  topic.add(1, std::string("\x01\x01\x63", 3));
  StreamOptions options = until_now(topic, 4);
  const auto sink = std::make_shared<MemorySink>();
  options.skip_damaged = options.audit = true;
  options.dead_letters = sink;
  const auto stream = stream_of(topic, std::move(options));
  Batch batch(stream->tensors());
  stream->read(stream->begin(0), batch);
  stream->read(batch.after, batch);
  const Position at = batch.after;
  EXPECT_TRUE(sink->sent.empty());
  sink->away = true;
  EXPECT_THROW(stream->read(at, batch), ReadStopped) << "it was not stored, so no position follows it";
  sink->sent.clear();
  stream->read(at, batch);
  ASSERT_EQ(sink->sent.size(), 2U);
  const MemorySink::Sent& second = sink->sent[1];
  EXPECT_EQ(second.partition, 0) << "2 of 3 partitions is 0 of 2";
  EXPECT_EQ(second.message, "damaged");
  ASSERT_EQ(second.headers.size(), 4U);
  EXPECT_EQ(second.headers[0].name + "=" + second.headers[0].value, "telar.topic=events");
  EXPECT_EQ(second.headers[1].name + "=" + second.headers[1].value, "telar.partition=2");
  EXPECT_EQ(second.headers[2].name + "=" + second.headers[2].value, "telar.offset=3");
  EXPECT_EQ(second.headers[3].name, "telar.reason");
  EXPECT_TRUE(says(second.headers[3].value, "the message has 7 bytes"));
  EXPECT_EQ(stream->uses(batch.after).used, (std::vector<UsedOffsets>{{0, 3, 4}, {2, 2, 3}}));
  EXPECT_EQ(stream->uses(batch.after).left_out, (std::vector<UsedOffsets>{{1, 3, 4}, {2, 3, 4}}));
  stream->read(at, batch);
  EXPECT_EQ(sink->sent.size(), 2U) << "the same batch again";
}

TEST(Stream, AMessageWithoutAValueIsNoSampleAlthoughAnEmptyOneIs) {
  MemoryTopic topic(1);
  for (int n = 0; n < 2; ++n) topic.add(0, "");
  StreamOptions options = until_now(topic, 2);
  options.format.name = "protobuf";
  options.format.descriptor = fixture("messages/event.desc");
  options.format.message = "shop.Event";
  options.format.label = "kind";
  options.format.fields = {"a", "c"};
  Batch batch(stream_of(topic, options)->tensors());
  const auto empty = stream_of(topic, options);
  empty->read(empty->begin(0), batch);
  EXPECT_EQ(batch.size(), 2) << "of defaults";
  topic.nulls = true;
  const auto null = stream_of(topic, options);
  expect_error([&] { null->read(null->begin(0), batch); }, {"offset 0: the message has no value (null)"});
  const auto sink = std::make_shared<MemorySink>();
  options.skip_damaged = true;
  options.dead_letters = sink;
  const auto skipping = stream_of(topic, options);
  skipping->read(skipping->begin(0), batch);
  EXPECT_EQ(batch.size(), 0);
  ASSERT_EQ(sink->sent.size(), 2U);
  EXPECT_TRUE(sink->sent[0].null) << "not an empty value";
}

TEST(Stream, EachDamagedMessageIsStoredByTheProcessWhoseItIs) {
  MemoryTopic topic(2);
  for (int n = 0; n < 8; ++n) topic.add(n % 2, n % 3 == 1 ? "damaged" : message_of(n));
  std::vector<std::string> places;
  for (int64_t process = 0; process < 3; ++process) {
    StreamOptions options = until_now(topic, 8);
    const auto sink = std::make_shared<MemorySink>();
    options.part = {process, process + 1, 3};
    options.skip_damaged = true;
    options.dead_letters = sink;
    const auto stream = stream_of(topic, std::move(options));
    Batch batch(stream->tensors());
    stream->read(stream->begin(0), batch);
    EXPECT_EQ(batch.all_samples, 5);
    for (const auto& sent : sink->sent) places.push_back(place_in(sent.headers));
  }
  EXPECT_EQ(places, (std::vector<std::string>{"1 0", "0 2", "1 3"}));
}

TEST(Stream, ATopicThatWasCreatedAgainIsRecognised) {
  MemoryTopic topic(2);
  fill(topic, {6, 6});
  Batch batch(stream_of(topic, options_for(topic, 3))->tensors());
  const auto stream = stream_of(topic, options_for(topic, 3));
  stream->read(stream->begin(0), batch);
  const Position after = batch.after;  // offsets 2 and 1
  std::vector<std::string> warnings;
  const auto read_on = [&](MemoryTopic& from) {
    StreamOptions options = options_for(from, 3);
    options.warn = [&](const std::string& text) { warnings.push_back(text); };
    const auto another = stream_of(from, std::move(options));
    another->recognise(after);
    another->read(after, batch);
    return numbers_in(batch);
  };
  EXPECT_EQ(read_on(topic), counted(3, 6));
  MemoryTopic created(2);
  created.created += 60'000;
  fill(created, {6, 6});
  expect_error([&] { read_on(created); }, {"topic 'events', partition 0: offset 1 is another message",
                                           "created again", "start a new one"});
  MemoryTopic longer(2);
  for (int n = 0; n < 12; ++n) longer.add(static_cast<size_t>(n % 2), message_of(n) + "longer");
  expect_error([&] { read_on(longer); }, {"offset 1 is another message"});
  EXPECT_TRUE(warnings.empty());
  created.forget(0, 2);
  created.forget(1, 1);
  EXPECT_EQ(read_on(created), counted(3, 6)) << "nothing is left to compare with";
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("no longer has the last messages that this run has seen of partitions 0, 1"),
            std::string::npos);
}

/// The bytes as versions wrote them that kept no checksums.
Position without_checksums(const Position& position, size_t partitions) {
  std::string bytes = position.bytes;
  bytes[12] = 2;
  size_t at = 12 + 1 + 8 + 4 + 4 + 8 * partitions;
  for (size_t p = 0; p < partitions; ++p) bytes.erase(at += 17, 8);
  return {bytes};
}

TEST(Stream, MessagesOfEqualTimesAndSizesAreToldApart) {
  MemoryTopic topic(2);
  fill(topic, {6, 6});
  const auto stream = stream_of(topic, options_for(topic, 3));
  Batch batch(stream->tensors());
  stream->read(stream->begin(0), batch);
  const Position after = batch.after;
  EXPECT_EQ(stream_of(topic, options_for(topic, 3))->marked(stream->skip(stream->begin(0), 1)), after)
      << "the coordinator of workers reads what they have read";
  MemoryTopic created(2);
  for (int n = 0; n < 12; ++n) created.add(static_cast<size_t>(n % 2), message_of(n + 10));
  const auto again = stream_of(created, options_for(created, 3));
  expect_error([&] { again->recognise(after); },
               {"topic 'events', partition 0: offset 1 is another message", "created again"});
  const Position old = without_checksums(after, 2);
  again->recognise(old);
  again->read(old, batch);
  EXPECT_EQ(numbers_in(batch), counted(13, 16)) << "a run of before goes on";
  MemoryTopic keyed(2);
  fill(keyed, {6, 6});
  keyed.keyed = true;
  expect_error([&] { stream_of(keyed, options_for(keyed, 3))->recognise(after); }, {"is another message"});
}

TEST(Stream, ATrainingDoesNotEndWithBrokersThatDoNotGiveItsLastMessages) {
  MemoryTopic topic(1);
  fill(topic, {6});
  topic.trouble = "no broker answers";
  StreamOptions options = options_for(topic, 3);
  std::vector<std::string> warnings;
  options.warn = [&](const std::string& text) { warnings.push_back(text); };
  const auto stream = stream_of(topic, std::move(options));
  const Position after = stream->skip(stream->begin(0), 1);
  EXPECT_EQ(stream->marked(after), after);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("its last messages cannot be read (no broker answers)"), std::string::npos);
}

TEST(Stream, AMessageThatIsMissingBeforeAPositionIsNotAwaited) {
  MemoryTopic topic(1);
  fill(topic, {3});
  topic.add(0, message_of(3), 4);  // offset 7
  StreamOptions options = options_for(topic, 1);
  const Position place = to_position({.next = {6}, .last = {MessageMark{5, 3}}}, "events");
  Batch batch(stream_of(topic, options_for(topic, 1))->tensors());
  const auto stream = stream_of(topic, std::move(options));
  stream->recognise(place);
  stream->read(place, batch);
  EXPECT_EQ(batch.ids()[0], 7);
}

TEST(Stream, ABatchIsFoundWithoutReadingThoseBefore) {
  RandomSequence random(11, 1);
  for (int round = 0; round < 30; ++round) {
    std::vector<int> sizes(1 + random.below(4));
    for (int& size : sizes) size = static_cast<int>(random.below(30));
    sizes[0] += 1;
    MemoryTopic topic(sizes.size());
    fill(topic, sizes);
    const StreamOptions options = until_now(topic, 1 + static_cast<int64_t>(random.below(7)));
    const auto stream = stream_of(topic, options);
    const auto finding = stream_of(topic, options);
    Batch batch(stream->tensors());
    Batch found(stream->tensors());
    int64_t number = 0;
    for (Position at = stream->begin(0); !stream->at_end(at); at = batch.after, ++number) {
      stream->read(at, batch);
      const Position where = finding->skip(finding->begin(0), number);
      const auto offsets = [&](const Position& position) {
        return stream_position(position, "events", std::vector<int64_t>(sizes.size())).next;
      };
      EXPECT_EQ(offsets(where), offsets(at));
      EXPECT_EQ(offsets(finding->skip(at, 2)), offsets(finding->skip(where, 2)));
      finding->read_part(where, finding->skip(where, 1), {}, found, {});
      ASSERT_EQ(numbers_in(found), numbers_in(batch)) << number;
    }
    EXPECT_EQ(finding->skip(finding->begin(0), number), finding->skip(finding->begin(0), number + 9));
    int64_t messages = 0;
    for (const UsedOffsets& used :
         stream->between(stream->begin(0), finding->skip(finding->begin(0), number)))
      messages += used.end - used.first;
    EXPECT_EQ(messages, std::accumulate(sizes.begin(), sizes.end(), 0));
  }
}

TEST(Stream, LeasedPartsAreReadInTheOrderOfTheirLeases) {
  MemoryTopic topic(3);
  fill(topic, {7, 2, 5});
  topic.add(0, "damaged");
  StreamOptions options = until_now(topic, 4);
  options.skip_damaged = true;
  const StreamPtr stream = stream_of(topic, std::move(options));
  LeasedStream leased(stream, 2);
  Loader loader(leased, {.threads = 1, .prefetch = 2});
  const auto lease = [&](int64_t step, int64_t part) {
    const Position at = stream->skip(stream->begin(5), step);
    leased.add({.epoch = 5,
                .begin = step,
                .end = step + 1,
                .part = part,
                .places = {at.bytes, stream->skip(at, 1).bytes}},
               step);
  };
  lease(3, 1);
  lease(0, 0);
  loader.start(leased.begin(0));
  const auto next = [&] {
    const Batch* batch = loader.next();
    EXPECT_EQ(batch->epoch, 5U);
    Batch copy(leased.tensors());
    copy.resize(batch->size());
    for (size_t t = 0; t < 2; ++t)
      std::memcpy(copy.data(t), batch->find(leased.tensors()[t].name),
                  static_cast<size_t>(batch->size()) * leased.tensors()[t].sample_bytes());
    return numbers_in(copy);
  };
  EXPECT_EQ(next(), counted(13, 14)) << "without the damaged message";
  EXPECT_EQ(next(), counted(0, 2));
  EXPECT_EQ(loader.next(), nullptr);
  lease(2, 1);
  lease(3, 0);
  loader.extend();
  EXPECT_EQ(next(), counted(10, 12));
  EXPECT_EQ(next(), counted(12, 13));
  leased.clear();
  EXPECT_TRUE(leased.at_end(leased.begin(1)));
  expect_error([&] { leased.add({.begin = 2, .end = 3}, 2); }, {"does not say where they are"});
}

/// A worker that always has work reads leased batches without an end.
TEST(Stream, LeasedBatchesThatWereReadAreForgotten) {
  MemoryTopic topic(1);
  fill(topic, {20});
  const StreamPtr stream = stream_of(topic, until_now(topic, 2));
  LeasedStream leased(stream, 1);
  std::vector<Position> places = {stream->begin(0)};
  for (int64_t step = 0; step < 10; ++step) {
    places.push_back(stream->skip(places.back(), 1));
    leased.add({.begin = step, .end = step + 1, .places = {places[step].bytes, places[step + 1].bytes}},
               step);
  }
  Batch batch(leased.tensors());
  Position at = leased.begin(0);
  for (int step = 0; step < 10; ++step, at = batch.after) {
    EXPECT_FALSE(leased.at_end(at));
    leased.read(at, batch);
    EXPECT_EQ(numbers_in(batch), counted(2 * step, 2 * step + 2));
    leased.read(at, batch);
    EXPECT_EQ(numbers_in(batch), counted(2 * step, 2 * step + 2)) << "the last one again";
  }
  EXPECT_TRUE(leased.at_end(at));
  EXPECT_THROW(leased.read(leased.begin(0), batch), std::out_of_range);
}

/// The positions of all batches that can be made of messages that come one after another, each as soon as it
/// can.
std::vector<Position> planned(const StreamBatches& stream, MemoryTopic& topic,
                              const std::vector<size_t>& arrivals) {
  std::vector<Position> places = {stream.begin(0)};
  int number = 0;
  for (const size_t partition : arrivals) {
    topic.add(partition, message_of(number++));
    const std::vector<int64_t> ends = stream.known_ends(places.back());
    for (size_t p = 0; p < ends.size(); ++p) EXPECT_EQ(ends[p], topic.range(p).end);
    while (const auto end = stream.next_end(places.back(), ends, false)) places.push_back(*end);
  }
  return places;
}

std::vector<int64_t> offsets_at(const Position& position) {
  return stream_position(position, "events", {0, 0}).next;
}

TEST(Stream, ABatchIsLeasedWhenItsMessagesExist) {
  const std::vector<size_t> arrivals = {0, 0, 0, 0, 1, 0, 1, 1};
  MemoryTopic topic(2);
  const auto fixed = stream_of(topic, options_for(topic, 3));
  const std::vector<Position> in_turn = planned(*fixed, topic, arrivals);
  ASSERT_EQ(in_turn.size(), 3U) << "partition 1 makes the others wait";
  EXPECT_EQ(offsets_at(in_turn[1]), (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(offsets_at(in_turn[2]), (std::vector<int64_t>{3, 3}));
  EXPECT_EQ(fixed->behind(in_turn[2]), 2);

  MemoryTopic another(2);
  StreamOptions options = options_for(another, 3);
  options.by_arrival = true;
  const auto by_arrival = stream_of(another, std::move(options));
  const std::vector<Position> arrived = planned(*by_arrival, another, arrivals);
  ASSERT_EQ(arrived.size(), 3U);
  EXPECT_EQ(offsets_at(arrived[1]), (std::vector<int64_t>{3, 0}));
  EXPECT_EQ(offsets_at(arrived[2]), (std::vector<int64_t>{5, 1}));
  const std::vector<int64_t> ends = by_arrival->known_ends(arrived[2]);
  EXPECT_FALSE(by_arrival->next_end(arrived[2], ends, false));
  const auto closed = by_arrival->next_end(arrived[2], ends, true);
  ASSERT_TRUE(closed);
  EXPECT_EQ(offsets_at(*closed), (std::vector<int64_t>{5, 3})) << "smaller, because it is closed";
  EXPECT_FALSE(by_arrival->next_end(*closed, ends, true)) << "an empty batch";

  const auto reader = stream_of(another, options_for(another, 3));
  Batch batch(reader->tensors());
  reader->read_part(arrived[1], arrived[2], {}, batch, {});
  EXPECT_EQ(numbers_in(batch), (std::vector<int>{3, 4, 5})) << "0:3, 1:0, 0:4";
  reader->read_part(arrived[2], *closed, {1, 2, 2}, batch, {});
  EXPECT_EQ(numbers_in(batch), (std::vector<int>{7}));
  expect_error([&] { reader->read_part(arrived[0], arrived[2], {}, batch, {}); },
               {"not a batch of at most 3"});
  expect_error([&] { reader->read_part(arrived[2], arrived[1], {}, batch, {}); },
               {"not a batch of at most 3"});
}

TEST(Stream, NoMoreMessagesAreBehindThanThePassHas) {
  MemoryTopic topic(2);
  fill(topic, {6, 6});
  const auto until_offsets = stream_of(topic, until_now(topic, 4));
  StreamOptions options = options_for(topic, 4);
  options.messages = 10;
  const auto until_number = stream_of(topic, options);
  const auto endless = stream_of(topic, options_for(topic, 4));
  fill(topic, {100, 100});
  const auto behind = [](const StreamBatches& stream, int64_t batches) {
    const Position at = stream.skip(stream.begin(0), batches);
    return std::pair(*stream.behind(at), stream.complete(at, {106, 106}));
  };
  EXPECT_EQ(behind(*until_offsets, 0), std::pair(int64_t{12}, int64_t{12}));
  EXPECT_EQ(behind(*until_offsets, 2), std::pair(int64_t{4}, int64_t{4}));
  EXPECT_EQ(behind(*until_offsets, 3), std::pair(int64_t{0}, int64_t{0}));
  EXPECT_EQ(behind(*until_number, 2), std::pair(int64_t{2}, int64_t{2}));
  EXPECT_EQ(behind(*endless, 2), std::pair(int64_t{204}, int64_t{204}));
}

TEST(Stream, CompleteBatchesAreThoseThatCanBeLeased) {
  RandomSequence random(5, 1);
  for (int round = 0; round < 40; ++round) {
    MemoryTopic topic(1 + random.below(3));
    StreamOptions options = options_for(topic, 1 + static_cast<int64_t>(random.below(5)));
    options.by_arrival = round % 2 == 0;
    if (round % 3 == 0) options.messages = 1 + static_cast<int64_t>(random.below(20));
    const auto stream = stream_of(topic, options);
    std::vector<int64_t> ends(topic.partitions());
    for (int64_t& end : ends) end = static_cast<int64_t>(random.below(12));
    int64_t leased = 0;
    Position at = stream->begin(0);
    const int64_t complete = stream->complete(at, ends);
    while (const auto end = stream->next_end(at, ends, false)) {
      for (const UsedOffsets& used : stream->between(at, *end)) leased += used.end - used.first;
      at = *end;
      EXPECT_EQ(stream->complete(at, ends), complete - leased) << round;
    }
    EXPECT_EQ(leased, complete) << round;
  }
}

TEST(Stream, ABatchClosesAfterATime) {
  MemoryTopic topic(2);
  topic.add(1, message_of(0));
  StreamOptions options = options_for(topic, 8);
  options.by_arrival = true;
  options.linger_seconds = 0.02;
  const auto stream = stream_of(topic, std::move(options));
  Batch batch(stream->tensors());
  stream->read(stream->begin(0), batch);
  EXPECT_EQ(numbers_in(batch), (std::vector<int>{0}));
  EXPECT_EQ(batch.all_samples, 1);
  EXPECT_EQ(batch.arrived, (std::vector<int64_t>{topic.created}));
  for (int n = 1; n < 20; ++n) topic.add(0, message_of(n));
  const Position after = batch.after;
  stream->read(stream->begin(0), batch);
  EXPECT_EQ(numbers_in(batch), (std::vector<int>{0})) << "the same batch again";
  stream->read(after, batch);
  EXPECT_EQ(numbers_in(batch), counted(1, 9)) << "a full one";
}

TEST(Stream, ABatchClosesAlsoWhileMessagesGoOnArriving) {
  constexpr int kBatch = 3000;
  MemoryTopic topic(1);
  std::atomic<bool> closed = false;
  const std::jthread bot([&] {
    for (int n = 0; n < kBatch && !closed; ++n) {
      topic.add(0, message_of(n));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  StreamOptions options = options_for(topic, kBatch);
  options.by_arrival = true;
  options.linger_seconds = 0.02;
  const auto stream = stream_of(topic, std::move(options));
  Batch batch(stream->tensors());
  stream->read(stream->begin(0), batch);
  closed = true;
  EXPECT_GT(batch.all_samples, 0);
  EXPECT_LT(batch.all_samples, kBatch);
}

TEST(Stream, ALeasedBatchMayHaveNoGap) {
  MemoryTopic topic(1);
  fill(topic, {3});
  topic.add(0, message_of(3), 2);
  StreamOptions options = options_for(topic, 2);
  options.messages = 4;
  const auto stream = stream_of(topic, std::move(options));
  Batch batch(stream->tensors());
  const Position second = stream->skip(stream->begin(0), 1);
  expect_error([&] { stream->read_part(second, stream->skip(second, 1), {}, batch, {}); },
               {"no messages from offset 3 to 4", "use a strategy without them"});
}

TEST(Stream, GoesOnWithPartitionsThatWereAdded) {
  MemoryTopic before(2);
  fill(before, {4, 4});
  const auto stream = stream_of(before, options_for(before, 4));
  Batch batch(stream->tensors());
  stream->read(stream->begin(0), batch);
  EXPECT_EQ(numbers_in(batch), (std::vector<int>{0, 1, 2, 3}));

  MemoryTopic after(3);
  fill(after, {6, 6});
  for (int n = 20; n < 24; ++n) after.add(2, message_of(n));
  const auto resumed = stream_of(after, options_for(after, 4));
  resumed->read(batch.after, batch);
  EXPECT_EQ(numbers_in(batch), (std::vector<int>{4, 5, 20, 6}));
  resumed->read(batch.after, batch);
  EXPECT_EQ(numbers_in(batch), (std::vector<int>{7, 21, 8, 9}));
}

TEST(Stream, MayReadThePartitionsThatItsStartsName) {
  MemoryTopic topic(3);
  fill(topic, {2, 2, 2});
  StreamOptions options = options_for(topic, 4);
  options.starts.pop_back();
  expect_error([&] { stream_of(topic, options); }, {"data.start has 2 offsets", "3 partitions"});
  options.fewer_partitions = true;
  const auto stream = stream_of(topic, options);
  EXPECT_TRUE(says(stream->described(), "2 partitions"));
  Batch batch(stream->tensors());
  stream->read(stream->begin(0), batch);
  EXPECT_EQ(numbers_in(batch), (std::vector<int>{0, 1, 3, 4}));
}

TEST(Stream, WarnsOnceOfPartitionsThatWereAdded) {
  MemoryTopic topic(2);
  fill(topic, {4, 4});
  StreamOptions options = options_for(topic, 4);
  std::vector<std::string> warnings;
  options.warn = [&](const std::string& text) { warnings.push_back(text); };
  const auto stream = stream_of(topic, std::move(options));
  Batch batch(stream->tensors());
  stream->read(stream->begin(0), batch);
  EXPECT_TRUE(warnings.empty());
  topic.added = 1;
  stream->read(batch.after, batch);
  stream->known_ends(batch.after);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_TRUE(says(warnings[0], "topic 'events' has 3 partitions now; this run uses 2 of them"));
  EXPECT_TRUE(says(warnings[0], "--resume"));
}

TEST(Stream, WarnsOfPartitionsThatWereAddedAlsoWhileItWaits) {
  MemoryTopic topic(1);
  StreamOptions options = options_for(topic, 4);
  std::vector<std::string> warnings;
  options.warn = [&](const std::string& text) { warnings.push_back(text); };
  int asked = 0;
  options.stop_requested = [&] {
    topic.added = 1;
    return ++asked > 3;
  };
  const auto stream = stream_of(topic, std::move(options));
  Batch batch(stream->tensors());
  EXPECT_THROW(stream->read(stream->begin(0), batch), ReadStopped);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_TRUE(says(warnings[0], "2 partitions now"));
}

TEST(Stream, OffsetsUpToTheEndAreNotAnnouncedAsMessages) {
  MemoryTopic topic(1);
  topic.add(0, message_of(0));
  topic.add(0, message_of(1), 3);
  EXPECT_TRUE(says(stream_of(topic, until_now(topic, 2))->described(), "1 partition, up to 5 messages"));
  StreamOptions counted_messages = options_for(topic, 2);
  counted_messages.messages = 2;
  EXPECT_TRUE(says(stream_of(topic, counted_messages)->described(), "1 partition, 2 messages"));
}

TEST(Stream, RefusesPositionsThatAreNotItsOwn) {
  MemoryTopic topic(2);
  fill(topic, {3, 3});
  const auto stream = stream_of(topic, until_now(topic, 2));
  Batch batch(stream->tensors());
  const std::string bytes = stream->begin(0).bytes;
  for (size_t length = 0; length < bytes.size(); ++length)
    EXPECT_THROW(stream->read({bytes.substr(0, length)}, batch), Error) << length;
  expect_error([&] { stream->read({bytes + "!"}, batch); }, {"topic 'events!'", "'events'"});
  const Position other = to_position({.next = {0, 0, 0}}, "events");
  expect_error([&] { stream->read(other, batch); }, {"3 partitions", "has 2"});
  for (const uint64_t checksum : {uint64_t{0}, ~uint64_t{0}}) {
    const StreamPosition place{
        4, 77, 3, 1, {5, int64_t{1} << 60}, {MessageMark{1'700'000'000'000, 785, checksum}, std::nullopt}};
    EXPECT_EQ(stream_position(to_position(place, "events"), "events", {0, 0}), place);
  }
}

TEST(Stream, NormalisesAsFilesAre) {
  MemoryTopic topic(1);
  fill(topic, {10});
  StreamOptions options = until_now(topic, 10);
  options.scale = {{0.25}, {0.5}};
  const auto stream = stream_of(topic, std::move(options));
  Batch batch(stream->tensors());
  stream->read(stream->begin(0), batch);
  const auto* values = reinterpret_cast<const float*>(batch.data(0));
  EXPECT_FLOAT_EQ(values[2 * 9], (9.0F / 255 - 0.25F) / 0.5F);
}

}  // namespace
}  // namespace telar::test
