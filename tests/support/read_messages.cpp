#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "telar/core/error.h"
#include "telar/data/messages/message_format.h"

// What Telar reads in messages, for tests/python/check_messages.py. Each line of standard input is a format
// and messages of it as hexadecimal digits; each line of standard output has for each of them the features
// and the label, or why it is refused.

namespace {

using Json = nlohmann::json;

telar::MessageFormat format_of(const Json& given) {
  telar::MessageFormat format;
  format.name = given.at("format");
  format.spec.features = {given.at("features").get<int64_t>()};
  format.spec.wide = given.at("wide");
  format.spec.classes = given.at("classes");
  if (format.spec.classes == 0) format.spec.labels = {given.at("targets").get<int64_t>()};
  format.fields = given.at("fields");
  format.label = given.at("label");
  format.schema = given.value("schema", "");
  format.schema_ids = given.at("schema_ids").get<std::vector<int64_t>>();
  format.descriptor = given.value("descriptor", "");
  format.message = given.value("message", "");
  return format;
}

std::string bytes_of(const std::string& digits) {
  std::string bytes;
  for (size_t i = 0; i < digits.size(); i += 2)
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return bytes;
}

Json read(telar::MessageDecoder& decoder, const telar::SampleSpec& spec, const std::string& message) {
  std::vector<std::byte> features(spec.feature_bytes());
  std::vector<std::byte> label(spec.label_bytes());
  try {
    decoder.decode(message, features, label);
  } catch (const telar::Error& error) {
    return error.what();
  }
  const Json labels = spec.classes > 0 ? Json(telar::as_ints(label)) : Json(telar::as_floats(label));
  if (spec.wide) return {{"features", telar::as_doubles(features)}, {"label", labels}};
  return {{"features", telar::as_floats(features)}, {"label", labels}};
}

}  // namespace

int main() {
  try {
    for (std::string line; std::getline(std::cin, line);) {
      const Json given = Json::parse(line);
      const telar::MessageFormat format = format_of(given);
      const auto decoder = telar::message_decoder(format);
      Json found = Json::array();
      for (const Json& message : given.at("messages"))
        found.push_back(read(*decoder, format.spec, bytes_of(message.get<std::string>())));
      std::cout << found.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
