#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "telar/core/attributes.h"
#include "telar/data/streams/message_log.h"

namespace telar {

/// A topic of Apache Kafka or of a broker with its protocol. Without librdkafka (without_kafka.cpp), all
/// functions that reach one throw Error (user).
struct KafkaTopic {
  std::string brokers;  ///< "host:port,host:port"
  std::string name;
  std::string group;  ///< whose committed offsets tell others how far the messages are used; empty: none
  /// librdkafka's own keys, "security.protocol: sasl_ssl". A value "env:NAME" or "file:PATH" is read from the
  /// environment or from a file.
  std::vector<std::string> settings;
};

/// Throws Error (user) for addresses with a password, which would be stored with the job. Messages contain no
/// values.
void check_brokers(const std::string& brokers);
/// Throws Error (user) for a key that is ours to set, and for a password or key in plain text, also within an
/// address.
void check_kafka_settings(const std::vector<std::string>& settings);

/// The value of a setting, with "env:" and "file:" resolved. Throws Error (user), without the value.
struct KafkaSetting {
  std::string key;
  std::string value;
  bool secret = false;  ///< a password or key, or from elsewhere: nobody prints the value
};
KafkaSetting kafka_setting(const std::string& setting);

/// The topic that the options of a source of messages describe.
KafkaTopic kafka_topic_of(const Attributes& options);

/// Throws Error (run) if no broker answers within 10 seconds, Error (user) if there is no such topic.
std::unique_ptr<MessageLog> open_kafka_log(const KafkaTopic& topic);

/// The same for writing. If there is no such topic, it is created with `partitions` partitions (0: one).
/// `stop_requested` bounds the sink's waits; it is called from the thread that uses it. Empty: never.
std::unique_ptr<MessageSink> open_kafka_sink(const KafkaTopic& topic, int partitions,
                                             std::function<bool()> stop_requested = {});

/// For comparison: a client that takes messages as librdkafka gives them, and looks at none.
class PlainConsumer {
 public:
  virtual ~PlainConsumer() = default;
  /// Takes messages from these offsets on, until it has `messages` of them.
  virtual void consume(const std::vector<int64_t>& starts, int64_t messages) = 0;
};
std::unique_ptr<PlainConsumer> open_plain_consumer(const KafkaTopic& topic);

/// "librdkafka 2.0.2"; empty if telar was built without it.
std::string kafka_library();

}  // namespace telar
