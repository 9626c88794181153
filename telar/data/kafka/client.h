#pragma once

#include <librdkafka/rdkafka.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "telar/data/kafka.h"

namespace telar {

/// What librdkafka reports from its threads about the brokers; thread-safe.
class KafkaTrouble {
 public:
  void note(std::string text);
  void clear() { note(""); }
  std::string text() const;

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

/// A client of librdkafka.
class KafkaClient {
 public:
  /// `defaults`: pairs of key and value, which the topic's settings may replace; those that the library does
  /// not know are left out. `configure` may change what cannot be replaced. Throws Error (user) for a setting
  /// that the library refuses.
  using Settings = std::vector<std::pair<std::string, std::string>>;
  KafkaClient(rd_kafka_type_t type, const KafkaTopic& topic, const Settings& defaults, const Settings& fixed,
              const std::function<void(rd_kafka_conf_t*)>& configure = {});
  ~KafkaClient();
  KafkaClient(const KafkaClient&) = delete;
  KafkaClient& operator=(const KafkaClient&) = delete;

  rd_kafka_t* get() const { return client_; }
  const KafkaTrouble& trouble() const { return *trouble_; }
  KafkaTrouble& trouble() { return *trouble_; }

  /// A topic's name and its number of partitions.
  using TopicSize = std::pair<std::string, int>;
  /// All topics. Throws Error (run) if no broker answers.
  std::vector<TopicSize> topics() const;

 private:
  std::string brokers_;
  std::unique_ptr<KafkaTrouble> trouble_;
  rd_kafka_t* client_ = nullptr;
};

}  // namespace telar
