#include "telar/data/kafka/group.h"

namespace telar {

KafkaGroup::KafkaGroup(const KafkaTopic& topic)
    : topic_(topic.name),
      client_(RD_KAFKA_CONSUMER, topic, {{"client.id", "telar"}},
              {{"group.id", topic.group}, {"enable.auto.commit", "false"}}),
      answers_(rd_kafka_queue_new(client_.get())) {}

KafkaGroup::~KafkaGroup() {
  constexpr int kTries = 20;
  constexpr int kTryMs = 100;
  for (int i = 0; i < kTries && under_way_ > 0; ++i) serve(kTryMs);
  rd_kafka_queue_destroy(answers_);
}

void KafkaGroup::commit(const std::vector<int64_t>& next) {
  const std::scoped_lock lock(mutex_);
  serve(0);
  rd_kafka_topic_partition_list_t* offsets = rd_kafka_topic_partition_list_new(static_cast<int>(next.size()));
  for (size_t p = 0; p < next.size(); ++p)
    rd_kafka_topic_partition_list_add(offsets, topic_.c_str(), static_cast<int32_t>(p))->offset = next[p];
  if (rd_kafka_commit_queue(client_.get(), offsets, answers_, nullptr, nullptr) == RD_KAFKA_RESP_ERR_NO_ERROR)
    ++under_way_;
  rd_kafka_topic_partition_list_destroy(offsets);
}

void KafkaGroup::serve(int wait_ms) {
  while (rd_kafka_event_t* event = rd_kafka_queue_poll(answers_, wait_ms)) {
    rd_kafka_event_destroy(event);
    --under_way_;
    wait_ms = 0;
  }
}

}  // namespace telar
