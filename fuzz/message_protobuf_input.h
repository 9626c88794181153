#pragma once

#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/text_format.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "fuzz.h"
#include "telar/data/messages/message_decoders.h"

namespace telar::fuzz {

/// A message with every encoding of numbers, some of which are needed and some not.
inline const std::string& protobuf_descriptors() {
  static const std::string bytes = [] {
    google::protobuf::FileDescriptorSet set;
    google::protobuf::TextFormat::ParseFromString(R"(
file { name: "e.proto" syntax: "proto2" message_type { name: "E"
  field { name: "a" number: 1 type: TYPE_FLOAT label: LABEL_OPTIONAL }
  field { name: "b" number: 2 type: TYPE_SINT64 label: LABEL_REPEATED options { packed: true } }
  field { name: "c" number: 3 type: TYPE_DOUBLE label: LABEL_REPEATED }
  field { name: "d" number: 4 type: TYPE_FIXED32 label: LABEL_OPTIONAL }
  field { name: "id" number: 5 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "e" number: 16 type: TYPE_MESSAGE type_name: ".E" label: LABEL_REPEATED }
  field { name: "label" number: 17 type: TYPE_INT32 label: LABEL_OPTIONAL } } })",
                                                  &set);
    return set.SerializeAsString();
  }();
  return bytes;
}

/// A message, in a frame if it begins with a 0. False if it is refused.
inline bool read_protobuf(std::string_view input) {
  MessageFormat format;
  format.name = "protobuf";
  format.descriptor = "DESCRIPTOR";
  format.message = "E";
  format.fields = {"a", "b", "c", "d"};
  format.spec.features = {5};
  format.spec.classes = 3;
  if (input.starts_with('\0')) format.schema_ids = {1, 70'000};
  std::array<float, 5> features{};
  std::array<int32_t, 1> label{};
  try {
    protobuf_decoder(format, protobuf_descriptors())
        ->decode(input, std::as_writable_bytes(std::span(features)),
                 std::as_writable_bytes(std::span(label)));
  } catch (const Error&) {
    return false;  // the right answer to a damaged message
  }
  if (label[0] < 0 || label[0] >= 3) __builtin_trap();
  return true;
}

}  // namespace telar::fuzz
