#include "telar/data/streams/kafka/client.h"

#include <algorithm>
#include <functional>

#include "telar/core/error.h"

namespace telar {

namespace {

constexpr int kAnswerSeconds = 10;
constexpr std::string_view kHidden = "***";

void on_error(rd_kafka_t* /*client*/, int code, const char* reason, void* opaque) {
  auto* trouble = static_cast<KafkaTrouble*>(opaque);
  if (code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) {
    trouble->note_all_brokers_down(reason);
  } else {
    trouble->note(reason);
  }
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
    if (setting.secret && !setting.value.empty()) secrets_.push_back(setting.value);
    const auto result =
        rd_kafka_conf_set(conf_, setting.key.c_str(), setting.value.c_str(), reason, sizeof reason);
    if (result == RD_KAFKA_CONF_INVALID)
      throw user_error("data.kafka: librdkafka refuses the value of {}{}", setting.key,
                       setting.secret ? "" : fmt::format(": {}", reason));
    return result == RD_KAFKA_CONF_OK;
  }

  /// The values that nobody may print.
  const std::vector<std::string>& secrets() const { return secrets_; }

 private:
  rd_kafka_conf_t* conf_ = rd_kafka_conf_new();
  std::vector<std::string> secrets_;
};

/// From this version on, a full queue delays the next request by fetch.queue.backoff.ms; before, by a second.
constexpr int kShortBackoff = 0x02020000;

struct MetadataDestroy {
  void operator()(const rd_kafka_metadata_t* metadata) const { rd_kafka_metadata_destroy(metadata); }
};
using MetadataPtr = std::unique_ptr<const rd_kafka_metadata_t, MetadataDestroy>;

}  // namespace

void KafkaTrouble::hide(std::vector<std::string> secrets) { secrets_ = std::move(secrets); }

std::string KafkaTrouble::without_secrets(std::string text) const {
  for (const std::string& secret : secrets_) {
    for (size_t at = 0; (at = text.find(secret, at)) != std::string::npos; at += kHidden.size())
      text.replace(at, secret.size(), kHidden);
  }
  return text;
}

void KafkaTrouble::note(std::string text) {
  const std::scoped_lock lock(mutex_);
  text_ = without_secrets(std::move(text));
}

/// The reason of a single broker says more.
void KafkaTrouble::note_all_brokers_down(const std::string& text) {
  const std::scoped_lock lock(mutex_);
  if (text_.empty()) text_ = without_secrets(text);
  all_down_ = true;
}

void KafkaTrouble::clear() {
  const std::scoped_lock lock(mutex_);
  text_.clear();
  all_down_ = false;
}

bool KafkaTrouble::all_brokers_down() const {
  const std::scoped_lock lock(mutex_);
  return all_down_;
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
  trouble_->hide(conf.secrets());
  rd_kafka_conf_set_opaque(conf.get(), trouble_.get());
  rd_kafka_conf_set_error_cb(conf.get(), on_error);
  if (!debugs) rd_kafka_conf_set_log_cb(conf.get(), on_log);
  if (configure) configure(conf.get());
  char reason[512] = "";
  client_ = rd_kafka_new(type, conf.get(), reason, sizeof reason);
  if (client_ == nullptr) throw user_error("librdkafka cannot start: {}", trouble_->without_secrets(reason));
  conf.release();  // it belongs to the client now
}

/// What librdkafka keeps ready for each partition: with its own 64 MiB, 64 partitions would take 4 GiB.
KafkaClient::Settings KafkaClient::reading() {
  const bool quick = rd_kafka_version() >= kShortBackoff;
  return {{"client.id", "telar"},
          {"queued.max.messages.kbytes", quick ? "8192" : "65536"},
          {"fetch.queue.backoff.ms", "10"},
          {"fetch.wait.max.ms", "100"},
          {"reconnect.backoff.max.ms", "1000"}};
}

KafkaClient::~KafkaClient() { rd_kafka_destroy_flags(client_, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE); }

std::vector<KafkaClient::TopicSize> KafkaClient::topics() const {
  const rd_kafka_metadata_t* answer = nullptr;
  rd_kafka_resp_err_t error = RD_KAFKA_RESP_ERR__TIMED_OUT;
  for (int tries = 0; tries < kAnswerSeconds && error != RD_KAFKA_RESP_ERR_NO_ERROR; ++tries) {
    error = rd_kafka_metadata(client_, 1, nullptr, &answer, 1000);
    rd_kafka_poll(client_, 0);                             // for the errors that explain it
    if (tries > 0 && trouble_->all_brokers_down()) break;  // they refuse connections
  }
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
    const std::string trouble = trouble_->text();
    throw run_error("no broker at {} answers: {}", brokers_,
                    trouble.empty() ? rd_kafka_err2str(error) : trouble);
  }
  trouble_->clear();
  const MetadataPtr metadata(answer);
  std::vector<TopicSize> sizes;
  for (int t = 0; t < metadata->topic_cnt; ++t)
    sizes.emplace_back(metadata->topics[t].topic, metadata->topics[t].partition_cnt);
  return sizes;
}

std::string kafka_library() { return std::string("librdkafka ") + rd_kafka_version_str(); }

}  // namespace telar
