#include <algorithm>
#include <array>

#include "telar/core/error.h"
#include "telar/data/streams/kafka/client.h"

namespace telar {

namespace {

class KafkaPlainConsumer final : public PlainConsumer {
 public:
  explicit KafkaPlainConsumer(const KafkaTopic& topic)
      : client_(RD_KAFKA_CONSUMER, topic, KafkaClient::reading(), {}),
        topic_(rd_kafka_topic_new(client_.get(), topic.name.c_str(), nullptr)),
        queue_(rd_kafka_queue_new(client_.get())) {}

  ~KafkaPlainConsumer() override {
    rd_kafka_queue_destroy(queue_);
    rd_kafka_topic_destroy(topic_);
  }

  void consume(const std::vector<int64_t>& starts, int64_t messages) override {
    const auto partitions = static_cast<int32_t>(starts.size());
    for (int32_t p = 0; p < partitions; ++p)
      rd_kafka_consume_start_queue(topic_, p, starts[static_cast<size_t>(p)], queue_);
    std::array<rd_kafka_message_t*, kTakenTogether> taken{};
    for (int64_t left = messages; left > 0;) {
      constexpr int kWaitMs = 1000;
      // It waits until the batch is full, so the last one must not be larger than what is left.
      const size_t wanted = std::min(taken.size(), static_cast<size_t>(left));
      const ssize_t count = rd_kafka_consume_batch_queue(queue_, kWaitMs, taken.data(), wanted);
      if (count < 0)
        throw run_error("librdkafka cannot consume: {}", rd_kafka_err2str(rd_kafka_last_error()));
      for (ssize_t i = 0; i < count; ++i) {
        rd_kafka_message_t* message = taken[static_cast<size_t>(i)];
        left -= message->err == RD_KAFKA_RESP_ERR_NO_ERROR ? 1 : 0;
        rd_kafka_message_destroy(message);
      }
    }
    for (int32_t p = 0; p < partitions; ++p) rd_kafka_consume_stop(topic_, p);
  }

 private:
  KafkaClient client_;
  rd_kafka_topic_t* topic_;
  rd_kafka_queue_t* queue_;
};

}  // namespace

std::unique_ptr<PlainConsumer> open_plain_consumer(const KafkaTopic& topic) {
  return std::make_unique<KafkaPlainConsumer>(topic);
}

}  // namespace telar
