#include "telar/core/error.h"
#include "telar/data/streams/kafka.h"

namespace telar {

namespace {

Error no_kafka() {
  return user_error(
      "this telar was built without librdkafka, so it cannot reach Kafka; install librdkafka-dev (scripts/setup stream) and build again");
}

}  // namespace

std::unique_ptr<MessageLog> open_kafka_log(const KafkaTopic& /*topic*/) { throw no_kafka(); }

std::unique_ptr<MessageSink> open_kafka_sink(const KafkaTopic& /*topic*/, int /*partitions*/,
                                             std::function<bool()> /*stop_requested*/) {
  throw no_kafka();
}

std::unique_ptr<PlainConsumer> open_plain_consumer(const KafkaTopic& /*topic*/) { throw no_kafka(); }

std::string kafka_library() { return ""; }

}  // namespace telar
