#include <gtest/gtest.h>

#include <limits>

#include "data/message_records.h"
#include "telar/data/messages/avro_schema.h"

namespace telar::test {
namespace {

/// A record with one field x besides the label, which is an int.
std::string schema_with(const std::string& type) {
  return R"({"type": "record", "name": "R", "fields": [{"name": "x", "type": )" + type +
         R"(}, {"name": "kind", "type": "int"}]})";
}

DecodedRecord avro_record(const MessageFormat& format, const std::string& schema, const std::string& hex) {
  return decoded_record(*avro_decoder(format, schema), format, from_hex(hex));
}

MessageFormat x_format(int64_t features = 1, int64_t classes = 3) {
  return record_format("avro", {"x"}, features, classes);
}

TEST(AvroMessage, ReadsWhatPythonsEncoderWrote) {
  const MessageFormat format = record_format("avro", {"c", "b", "a"}, 4);
  const auto decoder = avro_decoder(format, message_fixture("event.avsc"));
  const auto messages = independent_messages("avro.json");
  ASSERT_EQ(messages.size(), 3U);
  for (const nlohmann::json& each : messages) {
    const DecodedRecord record = decoded_record(*decoder, format, from_hex(each.at("message")));
    const std::vector<double> b = each.at("b");
    EXPECT_EQ(record.x, (std::vector<float>{each.at("c").get<float>(), static_cast<float>(b[0]),
                                            static_cast<float>(b[1]), each.at("a").get<float>()}));
    EXPECT_EQ(record.label, each.at("kind").get<int>());
  }
}

TEST(AvroMessage, WithoutALabelItsFieldIsNotRead) {
  MessageFormat format = x_format();
  format.labelled = false;
  EXPECT_EQ(avro_record(format, schema_with("\"int\""), "06 10").x, std::vector<float>{3})
      << "the label is no class";
  format.label = "nowhere";
  EXPECT_EQ(avro_record(format, schema_with("\"int\""), "06 10").x, std::vector<float>{3});
}

TEST(AvroMessage, NumbersAreThoseOfTheSpecification) {
  const auto x = [](const std::string& type, const std::string& hex) {
    return avro_record(x_format(), schema_with(type), hex + " 02").x.front();
  };
  // The specification's table: 0 is 00, -1 is 01, 1 is 02, -64 is 7f, 64 is 80 01.
  EXPECT_EQ(x("\"int\"", "00"), 0);
  EXPECT_EQ(x("\"int\"", "01"), -1);
  EXPECT_EQ(x("\"int\"", "7f"), -64);
  EXPECT_EQ(x("\"long\"", "80 01"), 64);
  EXPECT_EQ(x("\"long\"", "ff ff ff ff ff ff ff ff ff 01"),
            static_cast<float>(std::numeric_limits<int64_t>::min()));
  EXPECT_EQ(x("\"float\"", "00 00 c0 3f"), 1.5F);
  EXPECT_EQ(x("\"double\"", "00 00 00 00 00 00 f8 bf"), -1.5F);
  EXPECT_EQ(x(R"({"type": "int", "logicalType": "date"})", "04"), 2) << "days since 1970";
  EXPECT_EQ(x(R"(["null", "double", "int"])", "04 06"), 3) << "the third type of the choice";
  EXPECT_EQ(
      avro_record(x_format(3), schema_with(R"({"type": "array", "items": "int"})"), "04 02 04 01 02 06 00 04")
          .x,
      (std::vector<float>{1, 2, 3}))
      << "two items; one item, which takes a byte; the end";
  MessageFormat targets = x_format(1, 0);
  EXPECT_EQ(avro_record(targets, schema_with("\"int\""), "02 09").target, -5);
}

TEST(AvroMessage, AFrameNamesTheSchema) {
  MessageFormat format = x_format();
  format.schema_ids = {7, 258};
  const std::string schema = schema_with("\"int\"");
  EXPECT_EQ(avro_record(format, schema, "00 00000102 06 02").x.front(), 3);
  EXPECT_EQ(avro_record(format, schema, "00 00000007 06 02").label, 1);
  expect_error([&] { avro_record(format, schema, "00 00000008 06 02"); },
               {"schema 8", "not in data.schema_ids"});
  for (const char* hex : {"", "00 000001", "06 02", "01 00000102 06 02"})
    expect_error([&] { avro_record(format, schema, hex); }, {"does not begin with a 0"});
}

TEST(AvroMessage, ADamagedRecordSaysWhatIsWrong) {
  struct Damaged {
    std::string type;
    std::string hex;
    std::vector<std::string_view> parts;
  };
  const std::string nothings = R"({"type": "array", "items": "null"})";
  const std::vector<Damaged> damaged = {
      {"\"int\"", "", {"ends within the record"}},
      {"\"int\"", "02", {"ends within the record"}},
      {"\"int\"", "02 02 00", {"1 bytes follow the record", "another schema"}},
      {"\"int\"", "02 06", {"the label is 3", "0 … 2"}},
      {"\"int\"", "80 80 80 80 10 02", {"2147483648", "an int of 32 bits"}},
      {"\"long\"", "ff ff ff ff ff ff ff ff ff 03 02", {"more than 64 bits"}},
      {"\"long\"", "ff ff ff ff ff ff ff ff ff ff 01 02", {"more than 64 bits"}},
      {"\"float\"", "00 00 c0 7f 02", {"feature 0 is nan"}},
      {"\"double\"", "00 00 00 00 00 00 f0 7f 02", {"feature 0 is inf"}},
      {R"(["null", "int"])", "00 02", {"'x' has null"}},
      {R"(["null", "int"])", "04 02", {"type 2 of a choice of 2"}},
      {R"({"type": "enum", "name": "E", "symbols": ["a"]})", "02 02", {"symbol 1 of an enum of 1"}},
      {R"({"type": "array", "items": "int"})", "00 02", {"0 numbers", "1 are needed"}},
      {R"({"type": "array", "items": "int"})", "04 02 02 00 02", {"more numbers", "1 are needed"}},
      {R"({"type": "array", "items": "int"})", "fe ff ff ff 0f 02", {"2147483647 items in 1 bytes"}},
      {R"({"type": "array", "items": "int"})",
       "ff ff ff ff ff ff ff ff ff 01 02 02",
       {"9223372036854775808 items"}},
      {R"({"type": "array", "items": "int"})", "01 04 02 00 02", {"take 1 bytes, not 2"}},
      {R"({"type": "array", "items": "int"})", "01 03 02 00 02", {"a length of -2 bytes"}},
  };
  for (const Damaged& each : damaged)
    expect_error([&] { avro_record(x_format(), schema_with(each.type), each.hex); }, each.parts);
  const std::string choice = R"({"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"},
                                 {"name": "kind", "type": ["int", {"type": "array", "items": "int"}]}]})";
  EXPECT_EQ(avro_record(x_format(), choice, "02 00 02").label, 1);
  expect_error([&] { avro_record(x_format(), choice, "02 02 00"); }, {"the field 'kind' is not a number"});
}

TEST(AvroMessage, WhatNobodyNeedsTakesNeitherMemoryNorTime) {
  const auto skipped = [](const std::string& type, const std::string& hex) {
    const std::string schema = R"({"type": "record", "name": "R", "fields": [{"name": "other", "type": )" +
                               type + R"(}, {"name": "x", "type": "int"}, {"name": "kind", "type": "int"}]})";
    return avro_record(x_format(), schema, hex + "06 02").x.front();
  };
  EXPECT_EQ(skipped("\"string\"", "04 61 62"), 3);
  EXPECT_EQ(skipped(R"({"type": "array", "items": "null"})", "fe ff ff ff ff ff ff ff ff 01 00"), 3)
      << "2 to the 63 nothings";
  EXPECT_EQ(skipped(R"({"type": "map", "values": "boolean"})", "02 02 61 01 00"), 3);
  expect_error([&] { skipped("\"bytes\"", "fe ff ff ff ff ff ff ff ff 01"); }, {"ends within"});
  expect_error([&] { skipped("\"boolean\"", "02"); }, {"neither 0 nor 1"});
  expect_error([&] { skipped(R"({"type": "map", "values": "null"})", "fe ff ff ff 0f"); }, {"items in"});
  const std::string list =
      R"(["null", {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}])";
  std::string deep;
  for (int i = 0; i < 10; ++i) deep += "02";
  EXPECT_EQ(skipped(list, deep + "00"), 3);
  for (int i = 0; i < 100'000; ++i) deep += "02";
  expect_error([&] { skipped(list, deep + "00"); }, {"more than 32 values within each other"});
}

TEST(AvroMessage, ASchemaThatDoesNotFitIsRefusedBeforeAnyMessage) {
  const auto refuse = [](const std::string& schema, const std::vector<std::string_view>& parts) {
    expect_error([&] { avro_decoder(x_format(), schema); }, parts);
  };
  refuse("", {"FILE: is not valid JSON"});
  refuse("\"int\"", {"not the schema of a record"});
  refuse(schema_with("\"string\""), {"FILE: the field 'x' is not of numbers"});
  refuse(schema_with(R"(["null", "string"])"), {"'x' is not of numbers"});
  refuse(schema_with("\"Other\""), {"the type 'Other' is not defined"});
  refuse(schema_with(R"({"type": "array"})"), {"array has no 'items'"});
  refuse(schema_with(R"({"type": "fixed", "name": "F"})"), {"no 'size'"});
  refuse(schema_with(R"({"type": "record", "name": "R", "fields": []})"), {"'R' is defined twice"});
  refuse(
      R"({"type": "record", "name": "R", "fields": [{"name": "X", "type": "int"}, {"name": "kind", "type": "int"}]})",
      {"no field 'x'", "did you mean 'X'"});
  refuse(
      R"({"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"}, {"name": "x", "type": "int"}]})",
      {"the field 'x' twice"});
  refuse(R"({"type": "record", "name": "R", "fields": [{"name": "x", "type": "R"}]})",
         {"contains itself, without an end"});
  refuse(R"({"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"},
             {"name": "kind", "type": {"type": "array", "items": "int"}}]})",
         {"'kind' is an array", "one number"});
  refuse(std::string(100, '[') + std::string(100, ']'), {"more than 64 types"});
}

TEST(AvroSchema, NamesHaveNamespaces) {
  const AvroSchema schema = parse_avro_schema(R"(
{"type": "record", "name": "a.b.R", "fields": [
  {"name": "p", "type": {"type": "fixed", "name": "F", "size": 3}},
  {"name": "q", "type": "a.b.F"},
  {"name": "r", "type": {"type": "record", "name": "S", "namespace": "c", "fields": [{"name": "s", "type": "a.b.F"}]}},
  {"name": "t", "type": "c.S"},
  {"name": "u", "type": "F"}]})",
                                              "FILE");
  EXPECT_EQ(schema.fields, (std::vector<std::string>{"p", "q", "r", "t", "u"}));
  const std::vector<size_t>& parts = schema.types[schema.record].parts;
  EXPECT_EQ(parts[0], parts[1]);
  EXPECT_EQ(parts[0], parts[4]);
  EXPECT_EQ(parts[2], parts[3]);
  EXPECT_EQ(schema.types[parts[2]].parts, (std::vector<size_t>{parts[0]}));
  expect_error(
      [] {
        parse_avro_schema(
            R"({"type": "record", "name": "R", "namespace": "a", "fields": [{"name": "p", "type": "b.R"}]})",
            "FILE");
      },
      {"'b.R' is not defined"});
}

}  // namespace
}  // namespace telar::test
