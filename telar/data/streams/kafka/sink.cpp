#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "telar/core/error.h"
#include "telar/data/streams/kafka/client.h"

namespace telar {

namespace {

constexpr int kCreateMs = 10'000;

/// Creates the topic, unless another client has just done so.
void create_topic(const KafkaClient& client, const std::string& name, int partitions) {
  constexpr int kReplicasOfTheBroker = -1;
  char reason[512] = "";
  rd_kafka_NewTopic_t* topic =
      rd_kafka_NewTopic_new(name.c_str(), partitions, kReplicasOfTheBroker, reason, sizeof reason);
  if (topic == nullptr) throw user_error("topic '{}' cannot be created: {}", name, reason);
  rd_kafka_queue_t* answers = rd_kafka_queue_new(client.get());
  rd_kafka_CreateTopics(client.get(), &topic, 1, nullptr, answers);
  rd_kafka_event_t* event = rd_kafka_queue_poll(answers, kCreateMs);
  std::string error = event == nullptr ? "no broker answers" : "";
  if (event != nullptr && rd_kafka_event_error(event) != RD_KAFKA_RESP_ERR_NO_ERROR)
    error = rd_kafka_event_error_string(event);
  const rd_kafka_CreateTopics_result_t* result =
      event == nullptr ? nullptr : rd_kafka_event_CreateTopics_result(event);
  size_t count = 0;
  if (result != nullptr) {
    const rd_kafka_topic_result_t** topics = rd_kafka_CreateTopics_result_topics(result, &count);
    const rd_kafka_resp_err_t code =
        count > 0 ? rd_kafka_topic_result_error(topics[0]) : RD_KAFKA_RESP_ERR_NO_ERROR;
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR && code != RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS) {
      const char* text = rd_kafka_topic_result_error_string(topics[0]);
      error = text != nullptr ? text : rd_kafka_err2str(code);
    }
  }
  if (event != nullptr) rd_kafka_event_destroy(event);
  rd_kafka_queue_destroy(answers);
  rd_kafka_NewTopic_destroy(topic);
  if (!error.empty()) throw run_error("topic '{}' cannot be created: {}", name, error);
}

class KafkaSink final : public MessageSink {
 public:
  KafkaSink(const KafkaTopic& topic, int partitions, std::function<bool()> stop_requested)
      : name_(topic.name),
        stop_requested_(std::move(stop_requested)),
        client_(RD_KAFKA_PRODUCER, topic,
                {{"client.id", "telar"}, {"linger.ms", "5"}, {"message.max.bytes", "1000000000"}},
                {{"enable.idempotence", "true"}},
                [](rd_kafka_conf_t* conf) { rd_kafka_conf_set_dr_msg_cb(conf, on_delivery); }),
        partitions_(found_or_created(partitions)),
        topic_(rd_kafka_topic_new(client_.get(), name_.c_str(), nullptr)) {}

  ~KafkaSink() override {
    rd_kafka_purge(client_.get(), RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    rd_kafka_flush(client_.get(), 100);
    rd_kafka_topic_destroy(topic_);
  }

  int partitions() const override { return partitions_; }

  using MessageSink::publish;
  bool publish(int partition, const NewMessage& message) override {
    HeadersPtr list = list_of(message.headers);
    while (true) {
      const rd_kafka_resp_err_t error = produce(partition, message, list.get());
      if (error == RD_KAFKA_RESP_ERR_NO_ERROR) break;
      if (error != RD_KAFKA_RESP_ERR__QUEUE_FULL)
        throw run_error("topic '{}', partition {}: a message cannot be sent: {}", name_, partition,
                        rd_kafka_err2str(error));
      rd_kafka_poll(client_.get(), 10);
      require_stored();
      if (stop_requested_ && stop_requested_()) return false;
    }
    list.release();  // NOLINT(bugprone-unused-return-value): they belong to the message now
    ++under_way_;
    rd_kafka_poll(client_.get(), 0);
    require_stored();
    return true;
  }

  int64_t flush() override {
    std::optional<std::chrono::steady_clock::time_point> give_up;
    while (rd_kafka_flush(client_.get(), 100) != RD_KAFKA_RESP_ERR_NO_ERROR) {
      require_stored();
      const auto now = std::chrono::steady_clock::now();
      const bool stops = stop_requested_ && stop_requested_();
      if (stops && !give_up) give_up = now + kStopWait;
      if (give_up && now >= *give_up) break;
    }
    require_stored();
    client_.trouble().clear();
    return under_way_;
  }

  std::string trouble() const override { return client_.trouble().text(); }

 private:
  struct HeadersDestroy {
    void operator()(rd_kafka_headers_t* headers) const { rd_kafka_headers_destroy(headers); }
  };
  using HeadersPtr = std::unique_ptr<rd_kafka_headers_t, HeadersDestroy>;

  /// Null for none.
  static HeadersPtr list_of(const std::vector<MessageHeader>& headers) {
    if (headers.empty()) return nullptr;
    HeadersPtr list(rd_kafka_headers_new(headers.size()));
    for (const auto& [name, value] : headers)
      rd_kafka_header_add(list.get(), name.data(), static_cast<ssize_t>(name.size()), value.data(),
                          static_cast<ssize_t>(value.size()));
    return list;
  }

  /// Takes the headers if it succeeds.
  rd_kafka_resp_err_t produce(int partition, const NewMessage& message, rd_kafka_headers_t* headers) {
    std::array<rd_kafka_vu_t, 7> given{};
    given[0].vtype = RD_KAFKA_VTYPE_RKT;
    given[0].u.rkt = topic_;
    given[1].vtype = RD_KAFKA_VTYPE_PARTITION;
    given[1].u.i32 = partition;
    given[2].vtype = RD_KAFKA_VTYPE_MSGFLAGS;
    given[2].u.i = RD_KAFKA_MSG_F_COPY;
    given[3].vtype = RD_KAFKA_VTYPE_OPAQUE;
    given[3].u.ptr = this;
    size_t count = 4;
    if (!message.null) {
      given[count].vtype = RD_KAFKA_VTYPE_VALUE;
      given[count++].u.mem = copied(message.value);
    }
    if (message.key) {
      given[count].vtype = RD_KAFKA_VTYPE_KEY;
      given[count++].u.mem = copied(*message.key);
    }
    if (headers != nullptr) {
      given[count].vtype = RD_KAFKA_VTYPE_HEADERS;
      given[count++].u.headers = headers;
    }
    rd_kafka_error_t* error = rd_kafka_produceva(client_.get(), given.data(), count);
    const rd_kafka_resp_err_t code = rd_kafka_error_code(error);
    rd_kafka_error_destroy(error);
    return code;
  }

  using Memory = decltype(rd_kafka_vu_t{}.u.mem);
  static Memory copied(std::string_view bytes) {
    // Null stands for no key, or no value.
    const char* data = bytes.data() == nullptr ? "" : bytes.data();
    return {const_cast<char*>(data), bytes.size()};  // NOLINT: the library only copies it
  }

  static void on_delivery(rd_kafka_t* /*client*/, const rd_kafka_message_t* message, void* /*opaque*/) {
    auto* sink = static_cast<KafkaSink*>(message->_private);
    --sink->under_way_;
    if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR && sink->lost_++ == 0)
      sink->reason_ = rd_kafka_err2str(message->err);
  }

  int found_or_created(int wanted) const {
    if (const int found = partitions_now(); found > 0) return found;
    create_topic(client_, name_, std::max(1, wanted));
    constexpr int kTries = 100;
    for (int i = 0; i < kTries; ++i) {
      if (const int found = partitions_now(); found > 0) return found;
      rd_kafka_poll(client_.get(), 50);
    }
    throw run_error("topic '{}' was created, but the brokers do not list it", name_);
  }

  int partitions_now() const {
    const std::vector<KafkaClient::TopicSize> topics = client_.topics();
    const auto found = std::ranges::find(topics, name_, &KafkaClient::TopicSize::first);
    return found == topics.end() ? 0 : found->second;
  }

  void require_stored() const {
    if (lost_ > 0) throw run_error("topic '{}': a message could not be stored: {}", name_, reason_);
  }

  std::string name_;
  std::function<bool()> stop_requested_;
  KafkaClient client_;
  int partitions_;
  rd_kafka_topic_t* topic_;
  int64_t under_way_ =
      0;  ///< this and what follows are written by poll() and flush(), in the thread that calls them
  int64_t lost_ = 0;
  std::string reason_;
};

}  // namespace

std::unique_ptr<MessageSink> open_kafka_sink(const KafkaTopic& topic, int partitions,
                                             std::function<bool()> stop_requested) {
  return std::make_unique<KafkaSink>(topic, partitions, std::move(stop_requested));
}

}  // namespace telar
