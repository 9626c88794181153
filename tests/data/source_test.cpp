#include "telar/data/source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "data/support.h"

namespace telar::test {
namespace {

/// All options of a source, with their defaults except for those given.
Attributes options_of(const std::string& source, const Attributes& given = {}) {
  return completed("source '" + source + "'", source_type(source).options, given);
}

TEST(Source, EachDescribesItselfCompletely) {
  std::set<std::string> names;
  for (const SourceType& type : source_types()) {
    EXPECT_TRUE(names.insert(type.name).second) << type.name << " is registered twice";
    EXPECT_FALSE(type.summary.empty()) << type.name;
    EXPECT_TRUE(type.open) << type.name;
    const Attributes defaults = options_of(type.name);
    for (const std::string& option : type.paths) EXPECT_EQ(defaults.has(option), true) << option;
    for (const std::string& option : type.test_paths)
      EXPECT_EQ(std::count(type.paths.begin(), type.paths.end(), option), 1) << type.name << ": " << option;
    EXPECT_EQ(type.generated, type.paths.empty()) << type.name;
    EXPECT_EQ(type.inputs.described.empty(), !type.inputs.open) << type.name;
  }
  EXPECT_GE(names.size(), 10U);
}

TEST(Source, AnUnknownNameIsAnErrorWithTheNearest) {
  expect_error([] { source_type("cifar11"); }, {"unknown source 'cifar11'", "did you mean 'cifar10'"});
  expect_error([] { source_type(""); }, {"unknown source ''", "csv"});
}

TEST(Source, SyntheticNeedsNoFilesAndHasTestSamplesOfItsOwn) {
  const Attributes options =
      options_of("synthetic", {{"samples", int64_t{1'000'000'000}}, {"shape", std::vector<int64_t>{4}}});
  const SourceType& type = source_type("synthetic");
  const DatasetPtr train = type.open({.options = options, .seed = 3}, Split::train).samples;
  const DatasetPtr test = type.open({.options = options, .seed = 3}, Split::test).samples;
  EXPECT_EQ(train->size(), 1'000'000'000);
  EXPECT_EQ(test->size(), 200);
  EXPECT_NE(read(*train, 0), read(*test, 0));
  EXPECT_EQ(type.spec(options)->features, train->spec().features);
  const Attributes alone = options_of("synthetic", {{"test_samples", int64_t{0}}});
  EXPECT_EQ(type.open({.options = alone}, Split::test).samples, nullptr);
}

TEST(Source, ATestPathThatIsNotGivenMeansNoTestSamples) {
  for (const std::string name : {"csv", "npy", "images", "safetensors"}) {
    const Attributes options = options_of(name, {{"path", "somewhere"}});
    EXPECT_EQ(source_type(name).open({.options = options}, Split::test).samples, nullptr) << name;
    EXPECT_TRUE(source_type(name).test_by_user) << name;
  }
}

TEST(Source, AMissingPathIsRefused) {
  for (const SourceType& type : source_types()) {
    if (type.generated || type.open_stream) continue;
    Attributes options = options_of(type.name);
    options.set("path", std::string());
    expect_error([&] { type.check(options); }, {"source " + type.name + " needs 'data.path'"});
  }
}

TEST(Source, AStreamNeedsItsTopicAndOptionsThatSuitEachOther) {
  const Attributes topic = {{"brokers", "localhost:1"}, {"topic", "events"}};
  const SourceType& kafka = source_type("kafka");
  kafka.check(options_of("kafka", topic));
  const auto wrong = [&](const std::string& option, const Attribute& value, std::string_view part) {
    expect_error([&] { kafka.check(options_of("kafka", topic.with(option, value))); }, {part});
  };
  wrong("brokers", std::string(), "source kafka needs 'data.brokers'");
  wrong("topic", std::string(), "source kafka needs 'data.topic'");
  wrong("dtype", "i32", "token ids need the dtype i32 and a vocabulary");
  wrong("end", "messages: 0", "at least one message");
  wrong("end", "messages: [100, 200]", "data.end is {messages: [100, 200]}; it must be one number");
  wrong("end", "messages: []", "data.end is {messages: []}; it must be one number");
  wrong("end", "offsets: []", "data.end is {offsets: []}; it must have an offset for each partition");
  wrong("start", "offsets: []", "data.start is {offsets: []}; it must have an offset for each partition");
  kafka.check(options_of("kafka", topic.with("start", "offsets: 3").with("end", "messages: [5]")));
  wrong("kafka", std::vector<std::string>{"sasl.password: x"}, "sasl.password is a secret");
  wrong("brokers", "me:hunter2@localhost:1", "data.brokers: an address has a password");
  wrong("test_path", "test.csv", "data.test_path needs data.test_source");
  const Attributes by_arrival = topic.with("order", "arrival").with("end", "messages: 5");
  expect_error([&] { kafka.check(options_of("kafka", by_arrival)); }, {"data.order is arrival", "use fixed"});
  const Attributes defaults = options_of("kafka", topic);
  EXPECT_EQ(kafka.open({.options = defaults}, Split::test).samples, nullptr);
  const Attributes tested =
      options_of("kafka", topic.with("test_source", "synthetic").with("classes", int64_t{4}));
  const DatasetPtr test = kafka.open({.options = tested}, Split::test).samples;
  EXPECT_EQ(test->spec().classes, 4);
  const Attributes without_file = options_of("kafka", topic.with("test_source", "csv"));
  expect_error([&] { kafka.open({.options = without_file}, Split::test); },
               {"data.test_source is csv", "data.test_path"});
  EXPECT_EQ(test->spec().features, kafka.spec(tested)->features);
}

TEST(Source, FilesToPredictAreRecognisedByTheirContent) {
  const auto recognised = [](const std::string& bytes) {
    std::vector<std::string> names;
    for (const SourceType& type : source_types()) {
      if (type.inputs.recognises && type.inputs.recognises(Bytes(bytes.begin(), bytes.end())))
        names.push_back(type.name);
    }
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(recognised(std::string("\0\0\x08\x03\0\0\0\1", 8)), Names{"idx"});
  EXPECT_EQ(recognised("\x93NUMPY\1"), Names{"npy"});
  EXPECT_EQ(recognised("\xff\xd8\xff\xe0"), Names{"images"});
  EXPECT_EQ(recognised(std::string("\2\0\0\0\0\0\0\0{}", 10)), Names{"safetensors"});
  EXPECT_EQ(recognised(std::string("\3\0\0\0\0\0\0\0{}", 10)), Names{});
  EXPECT_EQ(recognised("1,2,3\n"), Names{});
  EXPECT_EQ(recognised(""), Names{});
}

}  // namespace
}  // namespace telar::test
