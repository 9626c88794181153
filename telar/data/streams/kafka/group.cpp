#include "telar/data/streams/kafka/group.h"

#include "telar/core/error.h"

namespace telar {

KafkaGroup::KafkaGroup(const KafkaTopic& topic)
    : topic_(topic.name),
      group_(topic.group),
      // No member joins, so the session's timeout is only how long the client waits for commits when it ends.
      client_(RD_KAFKA_CONSUMER, topic, {{"client.id", "telar"}, {"session.timeout.ms", "1000"}},
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

std::vector<std::optional<int64_t>> KafkaGroup::committed(int partitions) {
  constexpr int kAnswerMs = 10'000;
  rd_kafka_topic_partition_list_t* list = rd_kafka_topic_partition_list_new(partitions);
  for (int p = 0; p < partitions; ++p) rd_kafka_topic_partition_list_add(list, topic_.c_str(), p);
  rd_kafka_resp_err_t error = rd_kafka_committed(client_.get(), list, kAnswerMs);
  std::vector<std::optional<int64_t>> offsets(static_cast<size_t>(partitions));
  for (int i = 0; i < list->cnt; ++i) {
    const rd_kafka_topic_partition_t& answer = list->elems[i];
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) error = answer.err;
    if (answer.offset >= 0) offsets[static_cast<size_t>(answer.partition)] = answer.offset;
  }
  rd_kafka_topic_partition_list_destroy(list);
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return offsets;
  rd_kafka_poll(client_.get(), 0);
  const std::string trouble = client_.trouble().text();
  throw run_error("topic '{}': the brokers do not tell the committed offsets of group '{}': {}", topic_,
                  group_, trouble.empty() ? rd_kafka_err2str(error) : trouble);
}

void KafkaGroup::serve(int wait_ms) {
  while (rd_kafka_event_t* event = rd_kafka_queue_poll(answers_, wait_ms)) {
    rd_kafka_event_destroy(event);
    --under_way_;
    wait_ms = 0;
  }
}

}  // namespace telar
