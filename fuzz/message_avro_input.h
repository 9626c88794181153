#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "fuzz.h"
#include "telar/data/messages/message_decoders.h"

namespace telar::fuzz {

/// Every type of Avro, some of which are needed and some not.
inline constexpr std::string_view kAvroSchema = R"({"type": "record", "name": "E", "fields": [
  {"name": "i", "type": "int"}, {"name": "id", "type": "string"}, {"name": "n", "type": ["null", "long", "float"]},
  {"name": "nothings", "type": {"type": "array", "items": "null"}},
  {"name": "d", "type": {"type": "array", "items": ["double", {"type": "array", "items": "float"}]}},
  {"name": "tags", "type": {"type": "map", "values": {"type": "array", "items": "bytes"}}},
  {"name": "parent", "type": ["null", "E"]}, {"name": "flag", "type": "boolean"},
  {"name": "hash", "type": {"type": "fixed", "name": "H", "size": 4}},
  {"name": "label", "type": {"type": "enum", "name": "K", "symbols": ["a", "b", "c"]}}]})";

/// The first byte says what the others are: 0 a schema, 1 a record in a frame, other ones a record. False if
/// it is refused.
inline bool read_avro(std::string_view input) {
  if (input.empty()) return false;
  MessageFormat format;
  format.name = "avro";
  format.schema = "SCHEMA";
  format.fields = {"d", "i", "n"};
  format.spec.features = {4};
  format.spec.classes = 3;
  if (input.front() == 1) format.schema_ids = {1, 70'000};
  const bool schema = input.front() == 0;
  std::array<float, 4> features{};
  std::array<int32_t, 1> label{};
  try {
    const auto decoder = avro_decoder(format, schema ? input.substr(1) : kAvroSchema);
    if (!schema)
      decoder->decode(input.substr(1), std::as_writable_bytes(std::span(features)),
                      std::as_writable_bytes(std::span(label)));
  } catch (const Error&) {
    return false;  // the right answer to a damaged message
  }
  if (label[0] < 0 || label[0] >= 3) __builtin_trap();
  return true;
}

}  // namespace telar::fuzz
