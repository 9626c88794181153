#include "telar/data/messages/message_format.h"

#include <gtest/gtest.h>

#include <sys/mman.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "data/support.h"
#include "telar/core/random.h"

namespace telar::test {
namespace {

MessageFormat format_named(const std::string& name, const std::string& dtype = "f32", int64_t classes = 10) {
  MessageFormat format;
  format.name = name;
  format.dtype = dtype;
  format.spec.features = {3};
  format.spec.classes = classes;
  if (classes == 0) format.spec.labels = {1};
  return format;
}

struct Decoded {
  std::vector<float> x = std::vector<float>(3);
  std::vector<int32_t> label = {0};
  float target() const {
    float value = 0;
    std::memcpy(&value, label.data(), sizeof value);
    return value;
  }
};

Decoded decoded(const MessageFormat& format, std::string_view message) {
  Decoded sample;
  message_decoder(format)->decode(message, std::as_writable_bytes(std::span(sample.x)),
                                  std::as_writable_bytes(std::span(sample.label)));
  return sample;
}

std::string encoded(const MessageFormat& format, const std::vector<float>& x, int32_t label) {
  std::string message = "of before";
  encode_message(format, std::as_bytes(std::span(x)), std::as_bytes(std::span(&label, 1)), message);
  return message;
}

TEST(MessageFormat, RawHasTheBytesThatItsHeaderSays) {
  EXPECT_EQ(encoded(format_named("raw", "u8"), {0, 1, 2.0F * (1.0F / 255)}, 7),
            std::string("\x00\xff\x02\x07", 4));
  EXPECT_EQ(encoded(format_named("raw"), {0, 1, -2}, 7),
            std::string("\0\0\0\0\0\0\x80\x3f\0\0\0\xc0\x07", 13));
  EXPECT_EQ(encoded(format_named("raw", "u8", 257), {0, 0, 0}, 256).size(), 7U) << "an i32 for the label";
  const Decoded sample = decoded(format_named("raw", "u8"), std::string_view("\x00\xff\x02\x07", 4));
  EXPECT_EQ(sample.x, (std::vector<float>{0, 1, 2.0F * (1.0F / 255)}));
  EXPECT_EQ(sample.label[0], 7);
  expect_error(
      [] {
        encoded(format_named("raw", "u8"), {0, 0.3F, 0}, 7);
      },
      {"feature 1 is 0.3", "not a byte / 255"});
}

TEST(MessageFormat, JsonAndCsvAreReadableTexts) {
  const std::vector<float> x = {0.1F, -1e-20F, 123456.7F};
  EXPECT_EQ(encoded(format_named("json"), x, 3), R"({"x":[0.1,-1e-20,123456.7],"label":3})");
  EXPECT_EQ(encoded(format_named("csv"), x, 3), "0.1,-1e-20,123456.7,3");
  for (const char* name : {"json", "csv"}) {
    const Decoded sample = decoded(format_named(name), encoded(format_named(name), x, 3));
    EXPECT_EQ(sample.x, x) << name;
    EXPECT_EQ(sample.label[0], 3) << name;
    const float target = 2.5F;
    int32_t bits = 0;
    std::memcpy(&bits, &target, sizeof bits);
    const MessageFormat regression = format_named(name, "f32", 0);
    EXPECT_EQ(decoded(regression, encoded(regression, x, bits)).target(), target) << name;
  }
}

TEST(MessageFormat, JsonFieldsFollowEachOtherAndMayBeNested) {
  MessageFormat format = format_named("json");
  format.fields = {"b", "a"};
  format.label = "kind";
  const Decoded sample = decoded(format, R"({"a": 3, "other": "x", "kind": 9, "b": [[1], [2]]})");
  EXPECT_EQ(sample.x, (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(sample.label[0], 9);
}

TEST(MessageFormat, EachFieldHasOneLengthInAllMessages) {
  MessageFormat format = format_named("json");
  format.fields = {"a", "b"};
  const auto decoder = message_decoder(format);
  Decoded sample;
  const auto decode = [&](std::string_view message) {
    decoder->decode(message, std::as_writable_bytes(std::span(sample.x)),
                    std::as_writable_bytes(std::span(sample.label)));
  };
  expect_error([&] { decode(R"({"a": 1, "b": [2, 3], "label": 99})"); }, {"99"});
  decode(R"({"a": [1, 2], "b": 3, "label": 0})");
  expect_error([&] { decode(R"({"a": 1, "b": [2, 3], "label": 0})"); },
               {"the field 'a' has 1 number, but 2 in all other messages"});
  decode(R"({"b": 6, "label": 0, "a": [[4], [5]]})");
  EXPECT_EQ(sample.x, (std::vector<float>{4, 5, 6}));
  format.fields = {"a", "b", "c"};
  expect_error([&] { decoded(format, R"({"a": [1, 2], "b": 3, "c": [], "label": 0})"); },
               {"the field 'a' has 2 numbers, but 1 in all other messages"});
}

TEST(MessageFormat, JsonMayNotBeNestedSoDeeplyThatItEndsTheProgram) {
  const MessageFormat json = format_named("json");
  const auto nested = [](size_t arrays) {
    return R"({"x": )" + std::string(arrays, '[') + "1, 2, 3" + std::string(arrays, ']') +
           R"(, "label": 4, "note": "\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["})";
  };
  EXPECT_EQ(decoded(json, nested(31)).x, (std::vector<float>{1, 2, 3}));
  for (const size_t arrays : {size_t{32}, size_t{500'000}})
    expect_error([&] { decoded(json, nested(arrays)); },
                 {"more than 32 arrays and objects within each other"});
  expect_error([&] { decoded(json, R"({"x": 1, "other": )" + std::string(1'000'000, '[') + "}"); },
               {"more than 32 arrays and objects"});
  expect_error([&] { decoded(json, std::string(1'000'000, '[')); }, {"the message is an array"});
}

TEST(MessageFormat, JsonNumbersAreTheNearestDoublesAsF32) {
  const MessageFormat json = format_named("json");
  RandomSequence random(3, 1);
  const auto digits = [&](size_t count) {
    std::string text(1, static_cast<char>('1' + static_cast<int>(random.uniform() * 8.99F)));
    while (text.size() < count) text += static_cast<char>('0' + static_cast<int>(random.uniform() * 9.99F));
    return text;
  };
  std::vector<std::string> numbers = {
      "0",    "-0.0",   "1e-400", "-1E-46",   "3.4028235e38",         "1.17549435e-38",       "1e+23",
      "5e-1", "9e-324", "1e0000", "16777217", "18446744073709551615", "-9223372036854775809", "0.1e1"};
  numbers.push_back("0." + std::string(700, '0') + "1");
  numbers.push_back("0.1000000000000000055511151231257827");
  numbers.push_back("1" + std::string(30, '0') + "." + std::string(200, '9'));
  for (int i = 0; i < 3000; ++i) {
    const auto size = 1 + static_cast<size_t>(random.uniform() * 24);
    const int exponent = static_cast<int>(random.uniform() * 70) - 45;
    numbers.push_back("-" + (i % 3 == 0 ? "0" : digits(1)) + "." + digits(size) +
                      (i % 2 == 0 ? "" : fmt::format("e{}", exponent)));
    if (size < 38) numbers.push_back(digits(size));
  }
  for (const std::string& number : numbers) {
    const float wanted = static_cast<float>(std::strtod(number.c_str(), nullptr));
    if (!std::isfinite(wanted)) continue;
    const Decoded sample = decoded(json, fmt::format(R"({{"x": [{0}, {0}, 0], "label": 1}})", number));
    ASSERT_EQ(sample.x, (std::vector<float>{wanted, wanted, 0})) << number;
  }
}

TEST(MessageFormat, JsonFieldsMayComeInAnyOrderButOnlyOnce) {
  MessageFormat format = format_named("json");
  format.fields = {"a", "b", "c"};
  for (const char* message :
       {R"({"a": 1, "b": 2, "c": 3, "label": 4})", R"({"label": 4, "c": 3, "b": [[2]], "a": 1})",
        R"({"b": 2, "other": {"a": [7, {"b": "c"}]}, "c": 3, "label": 4, "a": 1})",
        "\xEF\xBB\xBF\t{\"\\u0061\": 1,\r\n\"c\" :3,\"b\": 2, \"label\": 4} \n"}) {
    const Decoded sample = decoded(format, message);
    EXPECT_EQ(sample.x, (std::vector<float>{1, 2, 3})) << message;
    EXPECT_EQ(sample.label[0], 4) << message;
  }
  format.fields = {"b", "a"};
  EXPECT_EQ(decoded(format, R"({"a": [1, 2], "label": 4, "b": 3})").x, (std::vector<float>{3, 1, 2}))
      << "fields of several numbers";
  expect_error([&] { decoded(format, R"({"a": [1, 2], "a": 0, "label": 4, "b": 3})"); },
               {"the field 'a' twice"});
  expect_error([&] { decoded(format, R"({"a": [1, 2], "label": 4, "b": 3, "label": 4})"); },
               {"the field 'label' twice"});
}

TEST(MessageFormat, JsonIsCheckedToItsEnd) {
  const MessageFormat json = format_named("json");
  for (const char* rest :
       {R"(, "other": tru})", R"(, "other": [1, 2})", R"(, "other": {"a" 1}})", R"(, "other": 01})",
        R"(, "other": "\x"})", R"(, "other": nul})", R"(, "o\": 1})", "}}", "} {}", "} x", "", ",}",
        R"(, "other": [1,]})", R"(, "other": 01e999})", R"(, "other": 1.e999})", R"(, "other": 1e999x})",
        R"(, "other": NaN})", R"(, "other": {"a": {}})"})
    expect_error([&] { decoded(json, R"({"x": [1, 2, 3], "label": 4)" + std::string(rest)); },
                 {"the message is not valid JSON"});
  expect_error([&] { decoded(json, "{\"x\": [1, 2, 3], \"label\": 4, \"a\": \"\xff\"}"); },
               {"not valid JSON"});
  expect_error([&] { decoded(json, R"({"x": [1, 02, 3], "label": 4})"); }, {"not valid JSON"});
  expect_error([&] { decoded(json, R"({"x": [1, 0.1e999x, 3], "label": 4})"); }, {"not valid JSON"});
  expect_error([&] { decoded(json, R"({"x": [1, 2, 3], "label": 1.e})"); }, {"not valid JSON"});
  expect_error([&] { decoded(json, R"({"x": {"y": 1}, "label": 4})"); }, {"'x' has an object"});
  expect_error([&] { decoded(json, R"({"x": [null, 2, 3], "label": 4})"); }, {"'x' has null"});
}

TEST(MessageFormat, JsonNumbersOfMoreThan64BitsAreNamed) {
  MessageFormat json = format_named("json");
  const auto sentence = [&](const std::string& message) {
    return sentence_of([&] { decoded(json, message); });
  };
  EXPECT_EQ(sentence(R"({"x": [1, 1e400 , 3], "label": 4})"),
            "feature 1 is 1e400, which is too large for a number of 64 bits");
  EXPECT_EQ(sentence(R"({"label": -0.1E+999, "x": [1, 2, 3]})"),
            "the label is -0.1E+999, which is too large for a number of 64 bits");
  EXPECT_EQ(decoded(json, R"({"a": 1e400, "x": [1, 2, 3], "b": [{"c": -1e400}], "label": 4})").label[0], 4)
      << "where nobody needs them";
  json.spec.classes = 0;
  json.spec.labels = {1};
  EXPECT_TRUE(says(sentence(R"({"x": [1, 2, 3], "label": 1)" + std::string(400, '0') + "}"),
                   "target 0 is 1" + std::string(29, '0') + "…, which is too large"));
}

/// A text behind which no byte may be read.
class AtPageEnd {
 public:
  explicit AtPageEnd(std::string_view text)
      : pages_(static_cast<char*>(
            ::mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))),
        text_(pages_ + kPage - text.size(), text.size()) {
    ::mprotect(pages_ + kPage, kPage, PROT_NONE);
    std::memcpy(pages_ + kPage - text.size(), text.data(), text.size());
  }
  ~AtPageEnd() { ::munmap(pages_, 2 * kPage); }
  AtPageEnd(const AtPageEnd&) = delete;
  AtPageEnd& operator=(const AtPageEnd&) = delete;
  std::string_view text() const { return text_; }

 private:
  static constexpr size_t kPage = 4096;
  char* pages_;
  std::string_view text_;
};

TEST(MessageFormat, NothingBehindAMessageIsRead) {
  for (const char* name : {"raw", "json", "csv"}) {
    const AtPageEnd message(encoded(format_named(name), {1, 2, 3}, 4));
    EXPECT_EQ(decoded(format_named(name), message.text()).x, (std::vector<float>{1, 2, 3})) << name;
  }
}

TEST(MessageFormat, ADecoderIsNotSpoiltByTheMessageBefore) {
  for (const char* name : {"json", "csv"}) {
    const auto decoder = message_decoder(format_named(name));
    const std::string right = encoded(format_named(name), {1, 2, 3}, 4);
    for (const std::string& before : {right, std::string("{"), std::string(3'000'000, '1'), std::string()}) {
      Decoded sample;
      const auto decode = [&](std::string_view message) {
        decoder->decode(message, std::as_writable_bytes(std::span(sample.x)),
                        std::as_writable_bytes(std::span(sample.label)));
      };
      if (before == right) {
        decode(before);
      } else {
        EXPECT_THROW(decode(before), Error);
      }
      decode(right);
      EXPECT_EQ(sample.x, (std::vector<float>{1, 2, 3})) << name;
      EXPECT_EQ(sample.label[0], 4) << name;
    }
  }
}

TEST(MessageFormat, NumbersAreF64UntilTheyAreNormalised) {
  const auto normalised = [](const MessageFormat& format, const FeatureScale& scale,
                             std::string_view message) {
    Decoded sample;
    message_decoder(format, scale)
        ->decode(message, std::as_writable_bytes(std::span(sample.x)),
                 std::as_writable_bytes(std::span(sample.label)));
    EXPECT_EQ(sample.label[0], 7);
    return sample.x;
  };
  const FeatureScale seconds{{1.7e9}, {0.5}};
  const std::vector<float> right = {2, 4, -6};
  const std::string line = "1700000001,1700000002,1699999997,7";
  EXPECT_EQ(normalised(format_named("csv"), seconds, line), right);
  MessageFormat json = format_named("json");
  json.fields = {"a", "b"};
  EXPECT_EQ(normalised(json, seconds, R"({"b": [1700000002, 1699999997], "label": 7, "a": 1700000001})"),
            right);
  EXPECT_EQ(normalised(format_named("csv"), {{0}, {0.5}}, "1,2,-3,7"), right) << "where f32 is enough";
  const FeatureScale far{{16'000'001}, {0.5}};
  EXPECT_EQ(
      normalised(format_named("raw"), far, encoded(format_named("raw"), {16e6F, 16'000'002, 16'000'003}, 7)),
      (std::vector<float>{-2, 2, 4}));
  const FeatureScale before{{1.7e9}, {0.5}, Normalising::rounded};
  EXPECT_EQ(normalised(format_named("csv"), before, line), (std::vector<float>{0, 0, 0}))
      << "as a run of before";
  expect_error([&] { message_decoder(format_named("csv"), {{1, 2}, {1, 2}}); }, {"3 channels", "2 means"});
}

TEST(MessageFormat, WideFeaturesAreWrittenWithAllTheirDigits) {
  const std::vector<double> x = {1'700'000'001, 0.1, -1e-7};
  const int32_t label = 7;
  for (const auto& [name, right] : {std::pair("csv", "1700000001,0.1,-1e-07,7"),
                                    std::pair("json", R"({"x":[1700000001,0.1,-1e-07],"label":7})")}) {
    MessageFormat format = format_named(name);
    format.spec.wide = true;
    std::string message;
    encode_message(format, std::as_bytes(std::span(x)), std::as_bytes(std::span(&label, 1)), message);
    EXPECT_EQ(message, right);
  }
}

TEST(MessageFormat, WithoutALabelAMessageIsReadWhateverItsLabelIs) {
  const std::vector<float> x = {0.5F, 1, 2};
  MessageFormat raw = format_named("raw");
  const std::string message = encoded(raw, x, 7);
  raw.labelled = false;
  EXPECT_EQ(decoded(raw, message).x, x);
  EXPECT_EQ(decoded(raw, message.substr(0, 12)).x, x);
  EXPECT_EQ(decoded(raw, message.substr(0, 12) + "\xff").x, x) << "a class that there is not";
  expect_error([&] { decoded(raw, message.substr(0, 11)); }, {"the message has 11 bytes"});
  MessageFormat csv = format_named("csv");
  csv.labelled = false;
  EXPECT_EQ(decoded(csv, "0.5,1,2").x, x);
  EXPECT_EQ(decoded(csv, "0.5,1,2,what").x, x);
  csv.label = "0";
  EXPECT_EQ(decoded(csv, "what,0.5,1,2").x, x);
  EXPECT_EQ(decoded(csv, "0.5,1,2").x, x);
  expect_error([&] { decoded(csv, "1,2"); }, {"the message has 1 features"});
  MessageFormat json = format_named("json");
  json.labelled = false;
  EXPECT_EQ(decoded(json, R"({"x": [0.5, 1, 2]})").x, x);
  EXPECT_EQ(decoded(json, R"({"label": "what", "x": [0.5, 1, 2], "more": 1})").x, x);
  json.fields = {"a", "b"};
  EXPECT_EQ(decoded(json, R"({"b": [1, 2], "label": null, "a": 0.5})").x, x);
  expect_error([&] { decoded(json, R"({"a": 0.5, "label": 3})"); }, {"no field 'b'"});
}

TEST(MessageFormat, TokensAreWithinTheVocabulary) {
  MessageFormat format = format_named("raw", "i32");
  format.spec.dtype = DType::i32;
  format.vocabulary = 5;
  const std::string message("\x04\0\0\0\0\0\0\0\x03\0\0\0\x01", 13);
  Decoded sample = decoded(format, message);
  EXPECT_EQ(std::memcmp(sample.x.data(), message.data(), 12), 0);
  format.vocabulary = 4;
  expect_error([&] { decoded(format, message); }, {"token 0 is 4", "0 … 3"});
  format.name = "json";
  expect_error([&] { decoded(format, R"({"x": [1, 2.5, 3], "label": 1})"); }, {"token 1 is 2.5"});
  expect_error([&] { decoded(format, R"({"x": [1, -2, 3], "label": 1})"); }, {"token 1 is -2"});
}

struct WrongMessage {
  MessageFormat format;
  std::string message;
  std::vector<std::string_view> parts;
};

TEST(MessageFormat, AWrongMessageSaysWhatIsWrong) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::string with_nan(13, '\0');
  std::memcpy(with_nan.data() + 4, &nan, sizeof nan);
  const MessageFormat json = format_named("json");
  const MessageFormat csv = format_named("csv");
  const std::vector<WrongMessage> wrong = {
      {format_named("raw"), "", {"has 0 bytes", "need 13"}},
      {format_named("raw"), std::string(14, 'x'), {"has 14 bytes"}},
      {format_named("raw"), with_nan, {"feature 1 is nan", "finite"}},
      {format_named("raw", "u8"), "abc\x0a", {"the label is 10", "0 … 9"}},
      {format_named("raw", "f32", 0), std::string(12, '\0') + "\0\0\x80\x7f", {"has 12 bytes", "need 16"}},
      {json, "", {"not valid JSON"}},
      {json, R"({"x": [1, 2, 3], "label": )", {"not valid JSON"}},
      {json, "[1, 2, 3]", {"the message is an array", "an object"}},
      {json, R"({"X": [1, 2, 3], "label": 1})", {"no field 'x'", "did you mean 'X'"}},
      {json, R"({"x": [1, 2], "label": 1})", {"2 numbers", "3 are needed"}},
      {json, R"({"x": [1, 2, 3, 4], "label": 1})", {"4 numbers", "3 are needed"}},
      {json, R"({"x": [1, "2", 3], "label": 1})", {"'x' has a text"}},
      {json, R"({"x": [1, 1e39, 3], "label": 1})", {"feature 1 is 1e+39", "finite"}},
      {json, R"({"x": [1, 2, 3], "label": 1.5})", {"the label is 1.5"}},
      {json, R"({"x": [1, 2, 3], "label": -1})", {"the label is -1"}},
      {json, R"({"x": [1, 2, 3], "label": [1]})", {"'label' is not a number"}},
      {json, R"({"x": [1, 2, 3]})", {"no field 'label'"}},
      {csv, "1,2,3", {"2 features", "need 3"}},
      {csv, "1,2,nan,1", {"column 3", "cannot be learned from"}},
      {csv, "1,2,3,1\n1,2,3,1", {"2 lines"}},
      {csv, "1,2,3,11", {"11 is not one of the 10 classes"}},
  };
  for (const WrongMessage& each : wrong)
    expect_error([&] { decoded(each.format, each.message); }, each.parts);
}

TEST(MessageFormat, AWrongCellIsShownWithoutItsControlCharactersAndInPart) {
  const auto sentence = [](const std::string& cell) {
    return sentence_of([&] { decoded(format_named("csv"), "1,2,3," + cell); });
  };
  EXPECT_EQ(sentence("\x1b]0;title\x07"), "the message, line 1, column 4: '?]0;title?' is not a number");
  const std::vector<std::string> cells = {std::string(1'000'000, 'x'), std::string(1'000'000, '9'),
                                          std::string(1'000'000, '0') + "77"};
  for (const std::string& cell : cells) {
    const std::string text = sentence(cell);
    EXPECT_TRUE(says(text, "column 4: "));
    EXPECT_TRUE(says(text, cell.substr(0, 60) + "…"));
    EXPECT_LT(text.size(), 200U);
  }
  MessageFormat json = format_named("json");
  json.fields = {"pixels"};
  expect_error([&] { decoded(json, R"({"pixels\u001b": [1, 2, 3], "label": 1})"); },
               {"no field 'pixels'; did you mean 'pixels?'?"});
}

TEST(MessageFormat, RefusesWhatDoesNotFitItsSamples) {
  expect_error([] { check(format_named("xml")); }, {"no format 'xml'", "raw, json, csv, avro or protobuf"});
  expect_error([] { check(format_named("raw", "i32")); }, {"token ids", "vocabulary above 0"});
  MessageFormat format = format_named("json");
  format.fields.clear();
  expect_error([&] { check(format); }, {"names of the fields"});
  format.fields = {"a", "label"};
  expect_error([&] { check(format); }, {"the field 'label' is named twice"});
  expect_error([] { check(format_named("avro")); }, {"avro needs the file of the schema"});
  MessageFormat avro = format_named("avro");
  avro.schema = "/nowhere/event.avsc";
  expect_error([&] { message_decoder(avro); }, {"/nowhere/event.avsc"});
  avro.schema_ids = {int64_t{1} << 31};
  expect_error([&] { check(avro); }, {"2147483648 is not the number of a schema"});
  expect_error([] { check(format_named("protobuf")); }, {"protobuf needs the file of a descriptor set"});
}

TEST(MessageFormat, MessagesAreWrittenWithAFieldForAllFeaturesOrOneForEach) {
  MessageFormat format = format_named("json");
  format.fields = {"a", "b", "c"};
  EXPECT_EQ(encoded(format, {1, 2.5F, 3}, 4), R"({"a":1,"b":2.5,"c":3,"label":4})");
  EXPECT_EQ(decoded(format, encoded(format, {1, 2.5F, 3}, 4)).x, (std::vector<float>{1, 2.5F, 3}));
  check_written(format);
  check_written(format_named("json"));
  format.fields = {"a", "b"};
  expect_error([&] { check_written(format); }, {"2 fields cannot have 3 features"});
  expect_error([] { check_written(format_named("avro")); }, {"written as raw, json or csv, not as avro"});
}

}  // namespace
}  // namespace telar::test
