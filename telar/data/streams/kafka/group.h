#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "telar/data/streams/kafka/client.h"

namespace telar {

/// The committed offsets of a consumer group, which others ask for to show its lag. Thread-safe.
class KafkaGroup {
 public:
  explicit KafkaGroup(const KafkaTopic& topic);
  /// Waits up to two seconds for commits that are under way.
  ~KafkaGroup();
  KafkaGroup(const KafkaGroup&) = delete;
  KafkaGroup& operator=(const KafkaGroup&) = delete;

  /// One offset for each partition. Returns at once.
  void commit(const std::vector<int64_t>& next);
  /// Of so many partitions; none where none was committed. Throws Error (run) if nobody answers.
  std::vector<std::optional<int64_t>> committed(int partitions);

 private:
  void serve(int wait_ms);

  std::string topic_;
  std::string group_;
  KafkaClient client_;
  rd_kafka_queue_t* answers_;
  std::mutex mutex_;
  int under_way_ = 0;
};

}  // namespace telar
