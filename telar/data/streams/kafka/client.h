#pragma once

#include <librdkafka/rdkafka.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "telar/data/streams/kafka.h"

namespace telar {

/// What librdkafka reports from its threads about the brokers; thread-safe.
class KafkaTrouble {
 public:
  /// Values that no text may contain; before the others are called.
  void hide(std::vector<std::string> secrets);
  std::string without_secrets(std::string text) const;
  void note(std::string text);
  void note_all_brokers_down(const std::string& text);
  void clear();
  /// Empty: nothing is wrong.
  std::string text() const;
  bool all_brokers_down() const;

 private:
  std::vector<std::string> secrets_;
  mutable std::mutex mutex_;
  std::string text_;
  bool all_down_ = false;
};

/// Messages that are taken from librdkafka together; more are slower, because they no longer fit the CPU's
/// caches.
inline constexpr size_t kTakenTogether = 64;

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
  /// Defaults of clients that read.
  static Settings reading();
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
