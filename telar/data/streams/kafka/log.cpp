#include <algorithm>
#include <array>
#include <chrono>
#include <optional>

#include "telar/core/error.h"
#include "telar/core/suggest.h"
#include "telar/data/streams/kafka/client.h"
#include "telar/data/streams/kafka/group.h"

namespace telar {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kAskMs = 10'000;
constexpr int64_t kMostSkipped = 10'000;
/// A broker that has taken a partition over tells too low an end for a moment (KIP-207).
constexpr std::chrono::seconds kLowEnd(10);
constexpr std::chrono::seconds kAskPartitions(60);

struct PartitionListDestroy {
  void operator()(rd_kafka_topic_partition_list_t* list) const {
    rd_kafka_topic_partition_list_destroy(list);
  }
};
using PartitionListPtr = std::unique_ptr<rd_kafka_topic_partition_list_t, PartitionListDestroy>;

/// Messages of one partition that have been taken from librdkafka together.
class FetchedMessages {
 public:
  FetchedMessages() = default;
  ~FetchedMessages() { clear(); }
  FetchedMessages(const FetchedMessages&) = delete;
  FetchedMessages& operator=(const FetchedMessages&) = delete;

  /// The next one; null if there is none. Valid until the next call.
  rd_kafka_message_t* take() {
    if (at_ > 0) destroy(at_ - 1);
    return at_ == count_ ? nullptr : messages_[at_++];
  }

  /// Takes what has arrived; if nothing has, the first message that does in this time.
  void fetch(rd_kafka_topic_t* topic, int partition, int wait_ms) {
    clear();
    const ssize_t found = rd_kafka_consume_batch(topic, partition, 0, messages_.data(), messages_.size());
    if (found > 0) count_ = static_cast<size_t>(found);
    if (count_ > 0 || wait_ms == 0) return;
    messages_[0] = rd_kafka_consume(topic, partition, wait_ms);
    count_ = messages_[0] == nullptr ? 0 : 1;
  }

  void clear() {
    for (size_t i = at_ > 0 ? at_ - 1 : 0; i < count_; ++i) destroy(i);
    at_ = count_ = 0;
  }

 private:
  void destroy(size_t i) {
    if (messages_[i] != nullptr) rd_kafka_message_destroy(messages_[i]);
    messages_[i] = nullptr;
  }

  std::array<rd_kafka_message_t*, kTakenTogether> messages_{};
  size_t at_ = 0;
  size_t count_ = 0;
};

class KafkaLog final : public MessageLog {
 public:
  explicit KafkaLog(const KafkaTopic& topic)
      : described_(topic),
        client_(RD_KAFKA_CONSUMER, topic, KafkaClient::reading(),
                {{"enable.partition.eof", "true"}, {"auto.offset.reset", "error"}}),
        partitions_(existing_partitions()),
        topic_(rd_kafka_topic_new(client_.get(), topic.name.c_str(), nullptr)),
        started_(partitions_),
        next_(partitions_),
        low_end_since_(partitions_),
        fetched_(partitions_) {
    if (!topic.group.empty()) group_.emplace(topic);
  }

  ~KafkaLog() override {
    for (size_t p = 0; p < partitions_; ++p) stop(static_cast<int>(p));
    fetched_.clear();
    rd_kafka_topic_destroy(topic_);
  }

  const std::string& name() const override { return described_.name; }
  int partitions() const override { return static_cast<int>(partitions_); }

  int partitions_now() override {
    const auto now = Clock::now();
    if (now - partitions_asked_ < kAskPartitions) return partitions_now_;
    partitions_asked_ = now;
    const rd_kafka_metadata_t* answer = nullptr;
    constexpr int kQuickMs = 1000;
    if (rd_kafka_metadata(client_.get(), 0, topic_, &answer, kQuickMs) != RD_KAFKA_RESP_ERR_NO_ERROR)
      return partitions_now_;
    if (answer->topic_cnt == 1) partitions_now_ = std::max(partitions_now_, answer->topics[0].partition_cnt);
    rd_kafka_metadata_destroy(answer);
    return partitions_now_;
  }

  std::vector<OffsetRange> ranges() override {
    std::vector<OffsetRange> ranges(partitions_);
    for (size_t p = 0; p < partitions_; ++p) {
      OffsetRange& range = ranges[p];
      ask_range(static_cast<int>(p), range.first, range.end);
      seek(static_cast<int>(p), range.end);
    }
    for (size_t p = 0; p < partitions_; ++p) ranges[p].end = end_of(static_cast<int>(p), ranges[p].end);
    return ranges;
  }

  int64_t first(int partition) override {
    int64_t first = 0;
    int64_t end = 0;
    ask_range(partition, first, end);
    return first;
  }

  std::vector<std::optional<int64_t>> since(int64_t time) override {
    PartitionListPtr list(rd_kafka_topic_partition_list_new(partitions()));
    for (int p = 0; p < partitions(); ++p)
      rd_kafka_topic_partition_list_add(list.get(), name().c_str(), p)->offset = time;
    rd_kafka_resp_err_t error = rd_kafka_offsets_for_times(client_.get(), list.get(), kAskMs);
    std::vector<std::optional<int64_t>> offsets(partitions_);
    for (int i = 0; i < list->cnt; ++i) {
      const rd_kafka_topic_partition_t& answer = list->elems[i];
      if (error == RD_KAFKA_RESP_ERR_NO_ERROR) error = answer.err;
      if (answer.offset >= 0) offsets[static_cast<size_t>(answer.partition)] = answer.offset;
    }
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
      throw run_error("topic '{}': the brokers do not tell its offsets for a time: {}", name(),
                      reason_of(error));
    return offsets;
  }

  void seek(int partition, int64_t offset) override {
    const auto p = static_cast<size_t>(partition);
    low_end_since_[p].reset();
    // What comes before the offset is dropped by next(): a seek takes as long as thousands of messages.
    if (started_[p] && offset >= next_[p] && offset - next_[p] <= kMostSkipped) {
      next_[p] = offset;
      return;
    }
    stop(partition);
    next_[p] = offset;
    if (rd_kafka_consume_start(topic_, partition, offset) != 0)
      throw run_error("topic '{}', partition {}: cannot be read from offset {}: {}", name(), partition,
                      offset, rd_kafka_err2str(rd_kafka_last_error()));
    started_[p] = true;
  }

  std::optional<Message> next(int partition, std::chrono::milliseconds wait) override {
    const auto p = static_cast<size_t>(partition);
    auto wait_ms = static_cast<int>(wait.count());
    while (true) {
      const rd_kafka_message_t* message = fetched_[p].take();
      if (message == nullptr) {
        fetched_[p].fetch(topic_, partition, wait_ms);
        wait_ms = 0;
        message = fetched_[p].take();
      }
      if (message == nullptr) {
        rd_kafka_poll(client_.get(), 0);
        if (is_beyond_end(partition)) throw out_of_range(partition);
        return std::nullopt;
      }
      if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
        next_[p] = std::max(next_[p], message->offset);
      } else if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
        require_hope(*message);
      } else if (message->offset >= next_[p]) {
        low_end_since_[p].reset();
        client_.trouble().clear();
        next_[p] = message->offset + 1;
        rd_kafka_timestamp_type_t kind = RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        return Message{message->offset,
                       {static_cast<const char*>(message->payload), message->len},
                       rd_kafka_message_timestamp(message, &kind),
                       key_of(*message),
                       message->payload == nullptr};
      }
    }
  }

  int64_t awaited(int partition) const override { return next_[static_cast<size_t>(partition)]; }

  std::optional<int64_t> behind(int partition, int64_t offset) const override {
    const int64_t end = known_end(partition);
    return end < 0 ? std::nullopt : std::optional(std::max<int64_t>(0, end - offset));
  }

  void tell_used(const std::vector<int64_t>& next) override {
    if (group_) group_->commit(next);
  }

  std::vector<std::optional<int64_t>> told_used() override {
    return group_ ? group_->committed(partitions()) : std::vector<std::optional<int64_t>>(partitions_);
  }

  std::string trouble() const override { return client_.trouble().text(); }

 private:
  static std::optional<std::string_view> key_of(const rd_kafka_message_t& message) {
    if (message.key == nullptr) return std::nullopt;
    return std::string_view(static_cast<const char*>(message.key), message.key_len);
  }

  size_t existing_partitions() const {
    const std::vector<KafkaClient::TopicSize> topics = client_.topics();
    const auto found = std::ranges::find(topics, described_.name, &KafkaClient::TopicSize::first);
    if (found != topics.end() && found->second > 0) return static_cast<size_t>(found->second);
    std::vector<std::string> names;
    for (const auto& [topic, size] : topics) names.push_back(topic);
    const std::string near = nearest(described_.name, names);
    throw user_error("there is no topic '{}' at {}{}", described_.name, described_.brokers,
                     near.empty() ? "" : fmt::format("; did you mean '{}'?", near));
  }

  void ask_range(int partition, int64_t& first, int64_t& end) const {
    const auto error = rd_kafka_query_watermark_offsets(client_.get(), described_.name.c_str(), partition,
                                                        &first, &end, kAskMs);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
      throw run_error("topic '{}', partition {}: the brokers do not tell its offsets: {}", name(), partition,
                      reason_of(error));
  }

  void stop(int partition) {
    const auto p = static_cast<size_t>(partition);
    fetched_[p].clear();
    if (started_[p]) rd_kafka_consume_stop(topic_, partition);
    started_[p] = false;
  }

  int64_t known_end(int partition) const {
    int64_t first = -1;
    int64_t end = -1;
    rd_kafka_get_watermark_offsets(client_.get(), described_.name.c_str(), partition, &first, &end);
    return end;
  }

  /// Whether the awaited offset lies beyond the end, and not only for a moment. A broker reports such an
  /// offset (Kafka), or waits for it (Tansu 0.6). Asked directly, Tansu tells too low an end, so what the
  /// fetches tell must agree.
  bool is_beyond_end(int partition) {
    const auto p = static_cast<size_t>(partition);
    const int64_t end = known_end(partition);
    if (end < 0 || end >= next_[p]) {
      low_end_since_[p].reset();
      return false;
    }
    const auto now = Clock::now();
    if (!low_end_since_[p]) low_end_since_[p] = now;
    if (now - *low_end_since_[p] < kLowEnd) return false;
    low_end_since_[p] = now;  // the next question is not asked at once
    int64_t first = 0;
    int64_t asked = 0;
    constexpr int kQuickMs = 1000;
    const auto error = rd_kafka_query_watermark_offsets(client_.get(), described_.name.c_str(), partition,
                                                        &first, &asked, kQuickMs);
    return error == RD_KAFKA_RESP_ERR_NO_ERROR && asked < next_[p];
  }

  /// The end of a partition, as a fetch from `least` on finds it: what a broker answers to the question for
  /// its offsets may be only the beginning of its last batch (Tansu 0.6).
  int64_t end_of(int partition, int64_t least) {
    for (int waited_ms = 0; waited_ms < kAskMs; waited_ms += 100) {
      rd_kafka_message_t* message = rd_kafka_consume(topic_, partition, 100);
      if (message == nullptr) continue;
      const bool found =
          message->err == RD_KAFKA_RESP_ERR_NO_ERROR || message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF;
      rd_kafka_message_destroy(message);
      if (!found) continue;
      stop(partition);
      return std::max(least, known_end(partition));
    }
    throw run_error("topic '{}', partition {}: the brokers do not tell its last offset: {}", name(),
                    partition, reason_of(RD_KAFKA_RESP_ERR__TIMED_OUT));
  }

  std::string reason_of(rd_kafka_resp_err_t error) const {
    rd_kafka_poll(client_.get(), 0);
    const std::string text = trouble();
    return text.empty() ? rd_kafka_err2str(error) : text;
  }

  /// Throws for an error that does not heal by itself.
  void require_hope(const rd_kafka_message_t& message) {
    switch (message.err) {
      case RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET:
      case RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE: throw out_of_range(message.partition);
      case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
      case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
      case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
        throw run_error("topic '{}', partition {}: it does not exist any more", name(), message.partition);
      case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
      case RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED:
      case RD_KAFKA_RESP_ERR__AUTHENTICATION:
      case RD_KAFKA_RESP_ERR__FATAL:
        throw run_error("topic '{}', partition {}: {}", name(), message.partition,
                        client_.trouble().without_secrets(rd_kafka_message_errstr(&message)));
      default: client_.trouble().note(rd_kafka_message_errstr(&message));
    }
  }

  Error out_of_range(int partition) const {
    int64_t first = 0;
    int64_t end = 0;
    const auto error = rd_kafka_query_watermark_offsets(client_.get(), described_.name.c_str(), partition,
                                                        &first, &end, kAskMs);
    const std::string range =
        error == RD_KAFKA_RESP_ERR_NO_ERROR ? fmt::format("; it has those from {} on", first) : std::string();
    return user_error(
        "topic '{}', partition {}: there is no offset {} (any more){}; the topic keeps its messages for too short a time, or was created anew",
        name(), partition, next_[static_cast<size_t>(partition)], range);
  }

  KafkaTopic described_;
  KafkaClient client_;
  size_t partitions_;
  rd_kafka_topic_t* topic_;
  std::vector<bool> started_;
  std::vector<int64_t> next_;  ///< the offset from which the next message is awaited
  std::vector<std::optional<Clock::time_point>> low_end_since_;  ///< when an end before it was told first
  std::vector<FetchedMessages> fetched_;
  int partitions_now_ = static_cast<int>(partitions_);
  Clock::time_point partitions_asked_ = Clock::now();
  std::optional<KafkaGroup> group_;
};

}  // namespace

std::unique_ptr<MessageLog> open_kafka_log(const KafkaTopic& topic) {
  return std::make_unique<KafkaLog>(topic);
}

}  // namespace telar
