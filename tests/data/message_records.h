#pragma once

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/support.h"
#include "telar/data/messages/message_decoders.h"

namespace telar::test {

/// What is in a file of tests/fixtures/data/messages.
inline std::string message_fixture(const std::string& name) {
  std::ifstream file(fixture("messages/" + name), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The bytes of "00 ff"; spaces do not matter.
inline std::string from_hex(const std::string& digits) {
  std::string bytes;
  std::string pair;
  for (const char digit : digits) {
    if (digit != ' ') pair += digit;
    if (pair.size() < 2) continue;
    bytes += static_cast<char>(std::stoi(pair, nullptr, 16));
    pair.clear();
  }
  return bytes;
}

/// Messages that telar's decoders have not written; make_messages.py has.
inline std::vector<nlohmann::json> independent_messages(const std::string& file) {
  return nlohmann::json::parse(message_fixture(file)).at("messages").get<std::vector<nlohmann::json>>();
}

inline MessageFormat record_format(const std::string& name, std::vector<std::string> fields, int64_t features,
                                   int64_t classes = 3) {
  MessageFormat format;
  format.name = name;
  format.fields = std::move(fields);
  format.label = "kind";
  format.schema = format.descriptor = "FILE";
  format.message = "shop.Event";
  format.spec.features = {features};
  format.spec.classes = classes;
  if (classes == 0) format.spec.labels = {1};
  return format;
}

struct DecodedRecord {
  std::vector<float> x;
  int32_t label = -1;
  float target = 0;
};

inline DecodedRecord decoded_record(MessageDecoder& decoder, const MessageFormat& format,
                                    std::string_view message) {
  DecodedRecord record{std::vector<float>(static_cast<size_t>(format.spec.features.elements()))};
  std::vector<std::byte> label(sizeof(float));
  decoder.decode(message, std::as_writable_bytes(std::span(record.x)), label);
  std::memcpy(format.spec.classes > 0 ? static_cast<void*>(&record.label) : &record.target, label.data(),
              label.size());
  return record;
}

}  // namespace telar::test
