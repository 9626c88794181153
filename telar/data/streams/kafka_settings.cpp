#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "telar/core/error.h"
#include "telar/data/files.h"
#include "telar/data/streams/kafka.h"

namespace telar {

namespace {

constexpr std::array<std::string_view, 8> kOurKeys = {
    "bootstrap.servers",    "metadata.broker.list", "group.id",
    "enable.auto.commit",   "auto.offset.reset",    "enable.auto.offset.store",
    "enable.partition.eof", "enable.idempotence"};

constexpr std::array<std::string_view, 3> kSecretKeys = {"sasl.oauthbearer.config", "ssl_key",
                                                         "ssl.keystore.pem"};
/// What the names of other secrets contain, also of those that a newer librdkafka brings.
constexpr std::array<std::string_view, 3> kSecretWords = {"password", "passphrase", "secret"};

constexpr std::string_view kFromEnvironment = "env:";
constexpr std::string_view kFromFile = "file:";

template <size_t N>
bool is_among(const std::array<std::string_view, N>& keys, std::string_view key) {
  return std::ranges::find(keys, key) != keys.end();
}

bool is_secret(std::string_view key) {
  return is_among(kSecretKeys, key) || key.ends_with("key.pem") ||
         std::ranges::any_of(kSecretWords,
                             [&](std::string_view word) { return key.find(word) != std::string_view::npos; });
}

/// Whether an address has a user and a password: "https://user:password@host".
bool has_password(std::string_view address) {
  const size_t scheme = address.find("://");
  if (scheme != std::string_view::npos) address.remove_prefix(scheme + 3);
  address = address.substr(0, address.find('/'));
  const std::string_view user = address.substr(0, address.find_last_of('@'));
  return user.size() < address.size() && user.find(':') != std::string_view::npos;
}

/// A value that the job names, but does not contain.
bool is_elsewhere(std::string_view value) {
  return value.starts_with(kFromEnvironment) || value.starts_with(kFromFile);
}

std::string from_environment(const std::string& key, const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr)
    throw user_error("data.kafka: the value of {} is that of the variable {}, which the environment lacks",
                     key, name);
  return value;
}

std::string from_file(const std::string& path) {
  const Bytes bytes = read_file(path);
  std::string text(bytes.begin(), bytes.end());
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  return text;
}

}  // namespace

KafkaTopic kafka_topic_of(const Attributes& options) {
  return {options.text("brokers"), options.text("topic"), options.text("group"), options.texts("kafka")};
}

KafkaSetting kafka_setting(const std::string& setting) {
  const size_t colon = setting.find(": ");
  KafkaSetting split{setting.substr(0, colon), setting.substr(colon + 2), false};
  split.secret = is_secret(split.key) || is_elsewhere(split.value);
  if (split.value.starts_with(kFromEnvironment)) {
    split.value = from_environment(split.key, split.value.substr(kFromEnvironment.size()));
  } else if (split.value.starts_with(kFromFile)) {
    split.value = from_file(split.value.substr(kFromFile.size()));
  }
  return split;
}

void check_brokers(const std::string& brokers) {
  std::string_view rest = brokers;
  while (!rest.empty()) {
    const size_t end = rest.find(',');
    if (has_password(rest.substr(0, end)))
      throw user_error(
          "data.brokers: an address has a password, which the run folder would store; give HOST:PORT, and sasl.username and sasl.password (as env:NAME or file:PATH) in data.kafka");
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  }
}

void check_kafka_settings(const std::vector<std::string>& settings) {
  for (const std::string& setting : settings) {
    const size_t colon = setting.find(": ");
    const std::string key = setting.substr(0, colon);
    const std::string_view value = std::string_view(setting).substr(colon + 2);
    if (is_among(kOurKeys, key))
      throw user_error("data.kafka: {} is set by telar; the job's own keys decide what it is", key);
    if (is_secret(key) && !is_elsewhere(value))
      throw user_error(
          "data.kafka: {} is a secret, which the run folder would store; write env:NAME or file:PATH instead of its value",
          key);
    if (value.find("://") != std::string_view::npos && has_password(value) && !is_elsewhere(value))
      throw user_error(
          "data.kafka: the address in {} has a password, which the run folder would store; write env:NAME or file:PATH instead of the address",
          key);
  }
}

}  // namespace telar
