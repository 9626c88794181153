#include "telar/data/streams/kafka.h"

#include <gtest/gtest.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include <future>
#include <thread>

#include "data/support.h"
#include "telar/data/streams/stream_batches.h"
#include "telar/data/streams/stream_start.h"

namespace telar::test {
namespace {

/// librdkafka's own brokers in this process. They show what a client does when errors are injected; that a
/// real broker answers alike is shown by tests/stream.
class MockBrokers {
 public:
  explicit MockBrokers(int count = 1) {
    char reason[256];
    rd_kafka_conf_t* conf = rd_kafka_conf_new();
    rd_kafka_conf_set_log_cb(conf, [](const rd_kafka_t*, int, const char*, const char*) {});
    client_ = rd_kafka_new(RD_KAFKA_PRODUCER, conf, reason, sizeof reason);
    cluster_ = rd_kafka_mock_cluster_new(client_, count);
  }
  ~MockBrokers() {
    rd_kafka_mock_cluster_destroy(cluster_);
    rd_kafka_destroy(client_);
  }
  MockBrokers(const MockBrokers&) = delete;
  MockBrokers& operator=(const MockBrokers&) = delete;

  rd_kafka_mock_cluster_t* get() const { return cluster_; }
  void create(const std::string& topic, int partitions) const {
    rd_kafka_mock_topic_create(cluster_, topic.c_str(), partitions, 1);
  }
  KafkaTopic topic(const std::string& name, const std::string& group = "") const {
    return {rd_kafka_mock_cluster_bootstraps(cluster_), name, group, {}};
  }

 private:
  rd_kafka_t* client_;
  rd_kafka_mock_cluster_t* cluster_;
};

void publish_numbers(const KafkaTopic& topic, int first, int end) {
  const auto sink = open_kafka_sink(topic, 0);
  for (int n = first; n < end; ++n) sink->publish(n % sink->partitions(), std::to_string(n));
  sink->flush();
}

std::string next_of(MessageLog& log, int partition) {
  for (int tries = 0; tries < 100; ++tries)
    if (const auto message = log.next(partition, std::chrono::milliseconds(100)))
      return std::string(message->value);
  return "nothing";
}

TEST(Kafka, ReadsEachPartitionInItsOrderFromAnyOffset) {
  const MockBrokers brokers;
  brokers.create("events", 3);
  publish_numbers(brokers.topic("events"), 0, 600);
  const auto log = open_kafka_log(brokers.topic("events"));
  EXPECT_EQ(log->partitions(), 3);
  EXPECT_EQ(log->ranges(), (std::vector<OffsetRange>{{0, 200}, {0, 200}, {0, 200}}));
  for (int p = 0; p < 3; ++p) log->seek(p, 0);
  for (int n = 0; n < 600; ++n) ASSERT_EQ(next_of(*log, n % 3), std::to_string(n));
  EXPECT_FALSE(log->next(1, std::chrono::milliseconds(10)));
  EXPECT_EQ(log->behind(1, 150), 50);
  log->seek(1, 66);
  EXPECT_EQ(next_of(*log, 1), "199");
  EXPECT_EQ(next_of(*log, 1), "202");
  publish_numbers(brokers.topic("events"), 0, 3);
  EXPECT_EQ(next_of(*log, 2), "2") << "a message that came later";
}

TEST(Kafka, ToldTimesAreThoseOfPublishing) {
  const MockBrokers brokers;
  brokers.create("events", 1);
  const auto now = [] {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  };
  const int64_t before = now();
  publish_numbers(brokers.topic("events"), 0, 2);
  const auto log = open_kafka_log(brokers.topic("events"));
  EXPECT_EQ(log->first(0), 0);
  log->seek(0, 1);
  std::optional<Message> message;
  while (!message) message = log->next(0, std::chrono::milliseconds(100));
  EXPECT_EQ(message->value, "1");
  EXPECT_GE(message->time, before);
  EXPECT_LE(message->time, now());
}

TEST(Kafka, TheMockBrokersHaveNoOffsetForATime) {
  const MockBrokers brokers;
  brokers.create("events", 2);
  publish_numbers(brokers.topic("events"), 0, 4);
  const auto log = open_kafka_log(brokers.topic("events"));
  EXPECT_EQ(log->since(1000), (std::vector<std::optional<int64_t>>(2)));
  expect_error([&] { offsets_since(*log, 1000, "THEN", log->ranges()); },
               {"topic 'events' has no message of THEN"});
}

/// All messages of a topic's only partition: "value; header=value; …".
std::vector<std::string> all_with_headers(const KafkaTopic& topic, size_t messages) {
  char reason[256];
  rd_kafka_conf_t* conf = rd_kafka_conf_new();
  rd_kafka_conf_set(conf, "bootstrap.servers", topic.brokers.c_str(), reason, sizeof reason);
  rd_kafka_t* client = rd_kafka_new(RD_KAFKA_CONSUMER, conf, reason, sizeof reason);
  rd_kafka_topic_t* handle = rd_kafka_topic_new(client, topic.name.c_str(), nullptr);
  rd_kafka_consume_start(handle, 0, 0);
  std::vector<std::string> found;
  for (int tries = 0; tries < 100 && found.size() < messages; ++tries) {
    rd_kafka_message_t* message = rd_kafka_consume(handle, 0, 100);
    if (message == nullptr) continue;
    std::string text(static_cast<const char*>(message->payload), message->len);
    rd_kafka_headers_t* headers = nullptr;
    rd_kafka_message_headers(message, &headers);
    const char* name = nullptr;
    const void* value = nullptr;
    size_t size = 0;
    for (size_t i = 0; rd_kafka_header_get_all(headers, i, &name, &value, &size) == 0; ++i)
      text += "; " + std::string(name) + "=" + std::string(static_cast<const char*>(value), size);
    found.push_back(text);
    rd_kafka_message_destroy(message);
  }
  rd_kafka_consume_stop(handle, 0);
  rd_kafka_topic_destroy(handle);
  rd_kafka_destroy(client);
  return found;
}

TEST(Kafka, DamagedMessagesGoToAnotherTopicWithTheirReason) {
  const MockBrokers brokers;
  brokers.create("events", 2);
  brokers.create("failed", 1);
  const auto publisher = open_kafka_sink(brokers.topic("events"), 2);
  for (const char* message : {"1,2,0", "1,2,7", "1,2", "3,4,1", "1,nan,1", "5,6,1"})
    publisher->publish(message[0] == '1' ? 1 : 0, message);
  publisher->flush();
  StreamOptions options;
  options.format.name = "csv";
  options.format.spec.features = {2};
  options.format.spec.classes = 2;
  options.batch = 6;
  options.starts = {0, 0};
  options.by_arrival = options.skip_damaged = options.audit = true;
  options.dead_letters = open_kafka_sink(brokers.topic("failed"), 0);
  const StreamBatches stream(open_kafka_log(brokers.topic("events")), options);
  Batch batch(stream.tensors());
  stream.read(stream.begin(0), batch);
  EXPECT_EQ(batch.size(), 3);
  const std::vector<std::string> failed = all_with_headers(brokers.topic("failed"), 3);
  ASSERT_EQ(failed.size(), 3U) << "they are stored when the batch is given";
  EXPECT_TRUE(says(failed[0], "1,2,7; telar.topic=events; telar.partition=1; telar.offset=1; telar.reason="));
  EXPECT_TRUE(says(failed[0], "7 is not one of the 2 classes"));
  EXPECT_TRUE(says(failed[1], "telar.offset=2; telar.reason=the message has 1 features; [2] need 2"));
  EXPECT_TRUE(says(failed[2], "telar.offset=3; telar.reason=the message, line 1, column 2"));
  EXPECT_EQ(stream.uses(batch.after).left_out, (std::vector<UsedOffsets>{{1, 1, 4}}));
}

TEST(Kafka, AMissingValueIsNoEmptyOne) {
  const MockBrokers brokers;
  brokers.create("events", 1);
  const auto sink = open_kafka_sink(brokers.topic("events"), 0);
  sink->publish(0, {.value = "", .key = "k", .null = true});
  sink->publish(0, {.value = "", .key = "k"});
  sink->flush();
  const auto log = open_kafka_log(brokers.topic("events"));
  log->seek(0, 0);
  for (const bool null : {true, false}) {
    std::optional<Message> message;
    while (!message) message = log->next(0, std::chrono::milliseconds(100));
    EXPECT_EQ(message->null, null);
    EXPECT_EQ(message->value, "");
  }
}

TEST(Kafka, SaysWhatIsMissing) {
  const MockBrokers brokers;
  brokers.create("events", 1);
  expect_error([&] { open_kafka_log(brokers.topic("evnets")); },
               {"no topic 'evnets'", brokers.topic("").brokers, "did you mean 'events'?"});
  publish_numbers(brokers.topic("events"), 0, 5);
  const auto log = open_kafka_log(brokers.topic("events"));
  log->seek(0, 17);
  expect_error([&] { next_of(*log, 0); }, {"topic 'events', partition 0", "no offset 17", "from 0 on"});
  EXPECT_EQ(open_kafka_sink(brokers.topic("events"), 4)->partitions(), 1);
}

TEST(Kafka, ABrokerThatIsAwayForATimeLosesAndRepeatsNothing) {
  const MockBrokers brokers;
  brokers.create("events", 2);
  publish_numbers(brokers.topic("events"), 0, 100);
  const auto log = open_kafka_log(brokers.topic("events"));
  for (int p = 0; p < 2; ++p) log->seek(p, 0);
  for (int n = 0; n < 40; ++n) ASSERT_EQ(next_of(*log, n % 2), std::to_string(n));
  rd_kafka_mock_broker_set_down(brokers.get(), 1);
  auto rest = std::async(std::launch::async, [&] {
    std::vector<std::string> values;
    for (int n = 40; n < 200; ++n) values.push_back(next_of(*log, n % 2));
    return values;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  rd_kafka_mock_broker_set_up(brokers.get(), 1);
  publish_numbers(brokers.topic("events"), 100, 200);
  const std::vector<std::string> values = rest.get();
  for (int n = 40; n < 200; ++n) ASSERT_EQ(values[static_cast<size_t>(n - 40)], std::to_string(n));
}

TEST(Kafka, AStoppedSinkSaysWhatIsNotStored) {
  const MockBrokers brokers;
  brokers.create("events", 1);
  bool stop = false;
  const auto sink = open_kafka_sink(brokers.topic("events"), 1, [&] { return stop; });
  EXPECT_TRUE(sink->publish(0, "stored"));
  EXPECT_EQ(sink->flush(), 0);
  rd_kafka_mock_broker_set_down(brokers.get(), 1);
  stop = true;
  for (int n = 0; n < 3; ++n) EXPECT_TRUE(sink->publish(0, std::to_string(n))) << "there is room for it";
  EXPECT_EQ(sink->flush(), 3);
}

TEST(Kafka, CommitsWhatIsStoredForOthersToSee) {
  const MockBrokers brokers;
  brokers.create("events", 2);
  publish_numbers(brokers.topic("events"), 0, 10);
  const KafkaTopic topic = brokers.topic("events", "trainers");
  open_kafka_log(topic)->tell_used({3, 2});
  char reason[256];
  rd_kafka_conf_t* conf = rd_kafka_conf_new();
  rd_kafka_conf_set(conf, "bootstrap.servers", topic.brokers.c_str(), reason, sizeof reason);
  rd_kafka_conf_set(conf, "group.id", "trainers", reason, sizeof reason);
  rd_kafka_t* client = rd_kafka_new(RD_KAFKA_CONSUMER, conf, reason, sizeof reason);
  rd_kafka_topic_partition_list_t* offsets = rd_kafka_topic_partition_list_new(2);
  for (int p = 0; p < 2; ++p) rd_kafka_topic_partition_list_add(offsets, "events", p);
  EXPECT_EQ(rd_kafka_committed(client, offsets, 10'000), RD_KAFKA_RESP_ERR_NO_ERROR);
  EXPECT_EQ(offsets->elems[0].offset, 3);
  EXPECT_EQ(offsets->elems[1].offset, 2);
  rd_kafka_topic_partition_list_destroy(offsets);
  rd_kafka_destroy(client);
  using Offsets = std::vector<std::optional<int64_t>>;
  EXPECT_EQ(open_kafka_log(topic)->told_used(), (Offsets{3, 2}));
  EXPECT_EQ(open_kafka_log(brokers.topic("events", "others"))->told_used(), Offsets(2));
}

TEST(Kafka, ACommitThatNobodyAnswersHoldsNothingUp) {
  const MockBrokers brokers;
  brokers.create("events", 1);
  auto log = open_kafka_log(brokers.topic("events", "trainers"));
  log->tell_used({1});
  while (log->told_used() != std::vector<std::optional<int64_t>>{1}) {
  }
  rd_kafka_mock_broker_set_down(brokers.get(), 1);
  log->tell_used({2});
  const auto start = std::chrono::steady_clock::now();
  log.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST(Kafka, AMessageHasAKeyOrNone) {
  const MockBrokers brokers;
  brokers.create("events", 1);
  const auto sink = open_kafka_sink(brokers.topic("events"), 0);
  for (const auto& key : {std::optional<std::string_view>("a"), std::optional<std::string_view>(""),
                          std::optional<std::string_view>()})
    EXPECT_TRUE(sink->publish(0, {.value = "v", .key = key}));
  EXPECT_EQ(sink->flush(), 0);
  const auto log = open_kafka_log(brokers.topic("events"));
  log->seek(0, 0);
  for (const std::string_view key : {"a", "", "none"}) {
    std::optional<Message> message;
    while (!message) message = log->next(0, std::chrono::milliseconds(100));
    EXPECT_EQ(message->key.value_or("none"), key);
  }
}

TEST(Kafka, SecretsAreNeverPartOfTheJobOrOfAMessage) {
  check_kafka_settings({"security.protocol: ssl", "sasl.password: env:TELAR_TEST_SECRET"});
  expect_error([] { check_kafka_settings({"sasl.password: hunter2"}); },
               {"sasl.password is a secret", "env:NAME or file:PATH"});
  try {
    check_kafka_settings({"sasl.password: hunter2"});
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("hunter2"), std::string::npos);
  }
  for (const char* key :
       {"sasl.oauthbearer.assertion.private.key.passphrase", "sasl.oauthbearer.assertion.private.key.pem",
        "sasl.oauthbearer.client.secret", "ssl.key.pem", "ssl.keystore.password", "ssl.keystore.pem",
        "ssl_key", "sasl.oauthbearer.config"}) {
    expect_error([&] { check_kafka_settings({fmt::format("{}: hunter2", key)}); }, {key, "is a secret"});
    check_kafka_settings({fmt::format("{}: file:of_the_secret", key)});
  }
  check_kafka_settings({"ssl.ca.pem: public", "ssl.key.location: key.pem"});
  const std::string address = "sasl.oauthbearer.token.endpoint.url: https://me:hunter2@host/token";
  expect_error([&] { check_kafka_settings({address}); }, {"token.endpoint.url has a password", "env:NAME"});
  check_kafka_settings({"sasl.oauthbearer.token.endpoint.url: https://host:443/token"});
  expect_error([] { check_brokers("first:9092,SSL://me:hunter2@second:9092"); },
               {"data.brokers", "password"});
  check_brokers("first:9092,SSL://second:9092,[::1]:9092");
  expect_error([] { check_kafka_settings({"group.id: mine"}); }, {"group.id is set by telar"});
  ::setenv("TELAR_TEST_SECRET", "hunter2", 1);
  EXPECT_EQ(kafka_setting("sasl.password: env:TELAR_TEST_SECRET").value, "hunter2");
  ::unsetenv("TELAR_TEST_SECRET");
  expect_error([] { kafka_setting("sasl.password: env:TELAR_TEST_SECRET"); },
               {"TELAR_TEST_SECRET", "environment lacks"});
  const TempFolder folder;
  const std::string text = "hunter2\n";
  folder.write("secret", {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  EXPECT_EQ(kafka_setting("ssl.key.password: file:" + folder.path("secret")).value, "hunter2");
  const MockBrokers brokers;
  KafkaTopic topic = brokers.topic("events");
  topic.settings = {"fetch.min.bytes: many"};
  expect_error([&] { open_kafka_log(topic); }, {"refuses the value of fetch.min.bytes"});
  ::setenv("TELAR_TEST_SECRET", "hunter2", 1);
  topic.settings = {"security.protocol: env:TELAR_TEST_SECRET"};
  const std::string refused = sentence_of([&] { open_kafka_log(topic); });
  EXPECT_TRUE(says(refused, "refuses the value of security.protocol"));
  topic.settings = {"sasl.mechanism: env:TELAR_TEST_SECRET", "security.protocol: sasl_plaintext"};
  const std::string cannot_start = sentence_of([&] { open_kafka_log(topic); });
  EXPECT_TRUE(says(cannot_start, "cannot start"));
  ::unsetenv("TELAR_TEST_SECRET");
  for (const std::string& sentence : {refused, cannot_start})
    EXPECT_EQ(sentence.find("hunter2"), std::string::npos) << sentence;
  topic.settings = {"fetch.mni.bytes: 1"};
  expect_error([&] { open_kafka_log(topic); }, {"does not know the key fetch.mni.bytes"});
}

}  // namespace
}  // namespace telar::test
