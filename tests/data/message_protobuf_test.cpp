#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "data/message_records.h"

namespace telar::test {
namespace {

/// `numbers`: of the fields before the label "kind".
DecodedRecord protobuf_record(const std::vector<std::string>& fields, int64_t numbers,
                              const std::string& hex) {
  const MessageFormat format = record_format("protobuf", fields, numbers);
  const auto decoder = protobuf_decoder(format, message_fixture("event.desc"));
  return decoded_record(*decoder, format, from_hex(hex));
}

TEST(ProtobufMessage, ReadsWhatProtocWrote) {
  const MessageFormat format = record_format("protobuf", {"a", "b", "c", "d", "e", "g", "h"}, 9);
  const auto decoder = protobuf_decoder(format, message_fixture("event.desc"));
  const auto messages = independent_messages("protobuf.json");
  ASSERT_EQ(messages.size(), 2U);
  for (const nlohmann::json& each : messages) {
    const DecodedRecord record = decoded_record(*decoder, format, from_hex(each.at("message")));
    EXPECT_EQ(record.x, each.at("numbers").get<std::vector<float>>());
    EXPECT_EQ(record.label, each.at("kind").get<int>());
  }
}

TEST(ProtobufMessage, FieldsMayComeInAnyOrderAndInParts) {
  // kind = 2; c = 5; b = 1.0 packed; c = 150; b = -2.0 alone: the last c counts, and b has both parts.
  EXPECT_EQ(
      protobuf_record({"b", "c"}, 3, "48 02 20 05 1a 08 000000000000f03f 20 9601 19 00000000000000c0").x,
      (std::vector<float>{1, -2, 150}));
  const DecodedRecord none = protobuf_record({"a", "c"}, 2, "");
  EXPECT_EQ(none.x, (std::vector<float>{0, 0})) << "fields without presence have their default";
  EXPECT_EQ(none.label, 0);
  expect_error([] { protobuf_record({"e"}, 1, "48 01"); }, {"no field 'e'"});
  EXPECT_EQ(protobuf_record({"c"}, 1, "20 05 0b 12 02 6869 13 14 0c f201 00").x, (std::vector<float>{5}))
      << "a group and a text that nobody needs";
}

TEST(ProtobufMessage, EachFieldHasOneLengthInAllMessages) {
  const MessageFormat format = record_format("protobuf", {"b", "g"}, 3);
  const auto decoder = protobuf_decoder(format, message_fixture("event.desc"));
  decoded_record(*decoder, format, from_hex("19 000000000000f03f 50 02 50 04"));
  expect_error(
      [&] { decoded_record(*decoder, format, from_hex("19 000000000000f03f 19 000000000000f03f 50 02")); },
      {"the field 'b' has 2 numbers, but 1 in all other messages"});
}

TEST(ProtobufMessage, AMessageOfAnotherTypeIsNotASampleOfDefaults) {
  // Fields 30 and 31, and a number where "id" is a text.
  for (const char* other : {"f001 05", "f001 05 f801 07", "08 05"})
    expect_error(
        [&] {
          protobuf_record({"a", "c"}, 2, other);
        },
        {"the message has no field of 'shop.Event'", "another type"});
  EXPECT_EQ(protobuf_record({"a", "c"}, 2, "0a 02 6869 f001 05").x, (std::vector<float>{0, 0}))
      << "an id, and a field that a newer schema may have";
  EXPECT_EQ(protobuf_record({"a", "c"}, 2, "52 01 02").x, (std::vector<float>{0, 0})) << "g, packed";
}

/// A file with three messages, of which the last has one in it.
std::string nested_descriptors() {
  google::protobuf::FileDescriptorSet set;
  google::protobuf::TextFormat::ParseFromString(R"(
file { name: "n.proto" package: "n" syntax: "proto3" message_type { name: "A" } message_type { name: "B" }
  message_type { name: "C" nested_type { name: "D" } nested_type { name: "E"
    field { name: "x" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL }
    field { name: "kind" number: 2 type: TYPE_INT32 label: LABEL_OPTIONAL } } } })",
                                                &set);
  return set.SerializeAsString();
}

TEST(ProtobufMessage, OfTheMembersOfAOneofTheLastOneCounts) {
  google::protobuf::FileDescriptorSet set;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(R"(
file { name: "o.proto" package: "shop"
  enum_type { name: "Kind" value { name: "K1" number: 1 } }
  message_type { name: "Event" oneof_decl { name: "how" }
    field { name: "x" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL oneof_index: 0 }
    field { name: "text" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL oneof_index: 0 }
    field { name: "e" number: 3 type: TYPE_ENUM type_name: ".shop.Kind" label: LABEL_OPTIONAL oneof_index: 0 }
    field { name: "kind" number: 4 type: TYPE_INT32 label: LABEL_OPTIONAL } } })",
                                                            &set));
  const MessageFormat format = record_format("protobuf", {"x"}, 1);
  const auto decoder = protobuf_decoder(format, set.SerializeAsString());
  const auto x = [&](const std::string& hex) { return decoded_record(*decoder, format, from_hex(hex)).x; };
  EXPECT_EQ(x("20 01 08 05"), std::vector<float>{5});
  EXPECT_EQ(x("20 01 12 01 61 08 05"), std::vector<float>{5}) << "the text before it";
  EXPECT_EQ(x("20 01 08 05 18 07"), std::vector<float>{5}) << "7 is no value of the enum";
  EXPECT_EQ(x("20 01 08 05 10 07"), std::vector<float>{5}) << "an integer is no text";
  for (const char* other : {"20 01 08 05 12 01 61", "20 01 08 05 18 01", "08 05 12 00 20 01"})
    expect_error([&] { x(other); }, {"the message has no field 'x'"});
}

TEST(ProtobufMessage, AFrameNamesTheSchemaAndTheMessageInIt) {
  MessageFormat format = record_format("protobuf", {"c"}, 1);
  format.schema_ids = {7, 258};
  const auto event = protobuf_decoder(format, message_fixture("event.desc"));
  const auto first = [&](const std::string& hex) { return decoded_record(*event, format, from_hex(hex)).x; };
  EXPECT_EQ(first("00 00000102 00 20 05"), std::vector<float>{5});
  EXPECT_EQ(first("00 00000007 02 00 20 05"), std::vector<float>{5}) << "one index, which is 0";
  expect_error([&] { first("00 00000008 00 20 05"); }, {"schema 8", "not in data.schema_ids"});
  expect_error([&] { first("20 05"); }, {"does not begin with a 0"});
  expect_error([&] { first("00 00000007"); }, {"not valid protobuf"});
  for (const char* path : {"02 02", "04 00 00", "01 00", "feffffffffffffffff01 00"})
    expect_error([&] { first(std::string("00 00000007") + path + "20 05"); }, {"the indices 0"});
  format.message = "n.C.E";
  format.fields = {"x"};
  const auto nested = protobuf_decoder(format, nested_descriptors());
  EXPECT_EQ(decoded_record(*nested, format, from_hex("00 00000007 04 04 02 08 03 10 01")).x,
            std::vector<float>{3});
  for (const char* path : {"00", "04 04 00", "02 04", "06 04 02 00"})
    expect_error(
        [&] { decoded_record(*nested, format, from_hex(std::string("00 00000007") + path + "08 03")); },
        {"the indices 2, 1"});
}

TEST(ProtobufMessage, WithoutALabelItsFieldIsNotRead) {
  MessageFormat format = record_format("protobuf", {"c"}, 1);
  format.labelled = false;
  const auto decoder = protobuf_decoder(format, message_fixture("event.desc"));
  EXPECT_EQ(decoded_record(*decoder, format, from_hex("20 05 48 05")).x, std::vector<float>{5})
      << "the label is no class";
  format.label = "nowhere";
  protobuf_decoder(format, message_fixture("event.desc"));
}

TEST(ProtobufMessage, ADamagedMessageSaysWhatIsWrong) {
  struct Damaged {
    std::vector<std::string> fields;
    std::string hex;
    std::vector<std::string_view> parts;
  };
  const std::vector<Damaged> damaged = {
      {{"a"}, "15 0000c0", {"not valid protobuf"}},
      {{"a"}, "15 0000c07f", {"feature 0 is nan"}},
      {{"a"}, "00", {"not valid protobuf"}},
      {{"a"}, "05 00000000", {"not valid protobuf"}},
      {{"a"}, "07", {"not valid protobuf"}},
      {{"a"}, "10 01", {"the field 'a' is not encoded as in the descriptor"}},
      {{"a"}, "12 04 0000c03f", {"the field 'a' is not encoded as in the descriptor"}},
      {{"a"}, "48 05", {"the label is 5", "0 … 2"}},
      {{"b"}, "1a 10 000000000000f03f", {"not valid protobuf"}},
      {{"b"}, "1a 07 000000000000f0", {"not valid protobuf"}},
      {{"b"}, "1a ffffffff0f", {"not valid protobuf"}},
      {{"b"}, "1a 10 000000000000f03f 000000000000f03f", {"more numbers", "1 are needed"}},
      {{"b"}, "", {"0 numbers", "1 are needed"}},
      {{"c"}, "20 ffffffffffffffffffffff", {"not valid protobuf"}},
      {{"c"}, "0a ff01 00", {"not valid protobuf"}},
      {{"c"}, "0b 10 01", {"not valid protobuf"}},
      {{"c"}, "0b 14", {"not valid protobuf"}},
      {{"c"}, "0c", {"not valid protobuf"}},
  };
  for (const Damaged& each : damaged)
    expect_error([&] { protobuf_record(each.fields, 1, each.hex); }, each.parts);
  std::string groups;
  for (int i = 0; i < 100'000; ++i) groups += "0b";
  expect_error([&] { protobuf_record({"c"}, 1, groups); }, {"more than 32 groups within each other"});
}

TEST(ProtobufMessage, ADescriptorThatDoesNotFitIsRefusedBeforeAnyMessage) {
  const std::string event = message_fixture("event.desc");
  const auto refuse = [&](const std::string& descriptors, const MessageFormat& format,
                          const std::vector<std::string_view>& parts) {
    expect_error([&] { protobuf_decoder(format, descriptors); }, parts);
  };
  MessageFormat format = record_format("protobuf", {"a"}, 1);
  refuse("", format, {"FILE: is not a descriptor set"});
  refuse(event.substr(0, event.size() - 3), format, {"FILE: is not a descriptor set"});
  format.message = "Event";
  refuse(event, format, {"no message 'Event'", "package"});
  refuse(event, record_format("protobuf", {"A"}, 1), {"no field 'A'", "did you mean 'a'"});
  for (const char* field : {"id", "tags", "parent", "flag"})
    refuse(event, record_format("protobuf", {field}, 1), {"the field", "it must be a number"});
  MessageFormat repeated = record_format("protobuf", {"a"}, 1);
  repeated.label = "g";
  refuse(event, repeated, {"'g' is repeated", "one number"});
}

}  // namespace
}  // namespace telar::test
