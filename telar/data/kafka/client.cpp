#include "telar/data/kafka/client.h"

#include <algorithm>
#include <functional>

#include "telar/core/error.h"

namespace telar {

namespace {

constexpr int kAnswerMs = 10'000;

void on_error(rd_kafka_t* /*client*/, int /*code*/, const char* reason, void* opaque) {
  static_cast<KafkaTrouble*>(opaque)->note(reason);
}

void on_log(const rd_kafka_t* /*client*/, int /*level*/, const char* /*facility*/, const char* /*text*/) {}

class Configuration {
 public:
  ~Configuration() {
    if (conf_ != nullptr) rd_kafka_conf_destroy(conf_);
  }
  rd_kafka_conf_t* get() { return conf_; }
  rd_kafka_conf_t* release() { return std::exchange(conf_, nullptr); }

  /// False for a key that the library does not know.
  bool set(const KafkaSetting& setting) {
    char reason[512] = "";
    const auto result =
        rd_kafka_conf_set(conf_, setting.key.c_str(), setting.value.c_str(), reason, sizeof reason);
    if (result == RD_KAFKA_CONF_INVALID)
      throw user_error("data.kafka: librdkafka refuses the value of {}{}", setting.key,
                       setting.secret ? "" : fmt::format(": {}", reason));
    return result == RD_KAFKA_CONF_OK;
  }

 private:
  rd_kafka_conf_t* conf_ = rd_kafka_conf_new();
};

struct MetadataDestroy {
  void operator()(const rd_kafka_metadata_t* metadata) const { rd_kafka_metadata_destroy(metadata); }
};
using MetadataPtr = std::unique_ptr<const rd_kafka_metadata_t, MetadataDestroy>;

}  // namespace

void KafkaTrouble::note(std::string text) {
  const std::scoped_lock lock(mutex_);
  text_ = std::move(text);
}

std::string KafkaTrouble::text() const {
  const std::scoped_lock lock(mutex_);
  return text_;
}

KafkaClient::KafkaClient(rd_kafka_type_t type, const KafkaTopic& topic, const Settings& defaults,
                         const Settings& fixed, const std::function<void(rd_kafka_conf_t*)>& configure)
    : brokers_(topic.brokers), trouble_(std::make_unique<KafkaTrouble>()) {
  Configuration conf;
  bool debugs = false;
  for (const auto& [key, value] : defaults) conf.set({key, value, false});
  for (const std::string& text : topic.settings) {
    const KafkaSetting setting = kafka_setting(text);
    debugs = debugs || setting.key == "debug";
    if (!conf.set(setting))
      throw user_error("data.kafka: {} does not know the key {}", kafka_library(), setting.key);
  }
  for (const auto& [key, value] : fixed) conf.set({key, value, false});
  conf.set({"bootstrap.servers", topic.brokers, false});
  rd_kafka_conf_set_opaque(conf.get(), trouble_.get());
  rd_kafka_conf_set_error_cb(conf.get(), on_error);
  if (!debugs) rd_kafka_conf_set_log_cb(conf.get(), on_log);
  if (configure) configure(conf.get());
  char reason[512] = "";
  client_ = rd_kafka_new(type, conf.get(), reason, sizeof reason);
  if (client_ == nullptr) throw user_error("librdkafka cannot start: {}", reason);
  conf.release();  // it belongs to the client now
}

KafkaClient::~KafkaClient() { rd_kafka_destroy_flags(client_, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE); }

std::vector<KafkaClient::TopicSize> KafkaClient::topics() const {
  const rd_kafka_metadata_t* answer = nullptr;
  const auto error = rd_kafka_metadata(client_, 1, nullptr, &answer, kAnswerMs);
  const MetadataPtr metadata(answer);
  rd_kafka_poll(client_, 0);  // for the errors that explain it
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
    const std::string trouble = trouble_->text();
    throw run_error("no broker at {} answers: {}", brokers_,
                    trouble.empty() ? rd_kafka_err2str(error) : trouble);
  }
  std::vector<TopicSize> sizes;
  for (int t = 0; t < metadata->topic_cnt; ++t)
    sizes.emplace_back(metadata->topics[t].topic, metadata->topics[t].partition_cnt);
  return sizes;
}

std::string kafka_library() { return std::string("librdkafka ") + rd_kafka_version_str(); }

}  // namespace telar
