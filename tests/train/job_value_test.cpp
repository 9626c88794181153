#include "telar/train/job_value.h"

#include <gtest/gtest.h>

#include "support/sentences.h"

namespace telar {
namespace {

using test::expect_error;

using Texts = std::vector<std::string>;

/// Reads the YAML text, as the value of "strategy.servers" in line 1 of job.yaml, as a list of texts.
Texts read_texts(const std::string& yaml, const ValueRule& rule = {}) {
  const JobNode root = parse_job_node("key: " + yaml + "\n", "job.yaml");
  Texts texts = {"left over"};
  read_value(*root.find("key"), "strategy.servers", rule, texts);
  return texts;
}

TEST(ListOfTexts, IsReadFromAListOrFromItsSingleItem) {
  EXPECT_EQ(read_texts("[host:5000, \"b\", 10.0.0.1:80, '[::1]:80']"),
            (Texts{"host:5000", "b", "10.0.0.1:80", "[::1]:80"}));
  EXPECT_EQ(read_texts("\n  - a\n  - b c"), (Texts{"a", "b c"}));
  EXPECT_EQ(read_texts("host:5000"), Texts{"host:5000"});
  EXPECT_EQ(read_texts("[]"), Texts{});
  EXPECT_EQ(read_texts("[8080, true, '']"), (Texts{"8080", "true", ""})) << "every value is read as text";
}

TEST(ListOfTexts, MistakesNameTheLineTheKeyAndTheValidForm) {
  expect_error([] { read_texts("{a: 1}"); },
               {"job.yaml:1: strategy.servers is a group of keys", "it must be a list of texts"});
  expect_error([] { read_texts("\n  - a\n  - [b]"); },
               {"job.yaml:3: strategy.servers is a list", "it must be a text"});
  expect_error([] { read_texts("[a, null]"); }, {"job.yaml:1: strategy.servers is nothing", "a text"});
}

TEST(ListOfTexts, AcceptsOnlyTheChoices) {
  const ValueRule rule{.choices = {"loss", "accuracy", "time"}};
  EXPECT_EQ(read_texts("[time, loss]", rule), (Texts{"time", "loss"}));
  EXPECT_EQ(read_texts("accuracy", rule), Texts{"accuracy"});
  expect_error([&] { read_texts("[loss, acuracy]", rule); },
               {"strategy.servers is 'acuracy'", "loss, accuracy or time", "did you mean 'accuracy'?"});
  expect_error([&] { read_texts("tiem", rule); },
               {"a list, each item loss, accuracy or time", "did you mean 'time'?"});
}

TEST(ListOfTexts, AMistakeKeepsTheFormerValue) {
  const JobNode root = parse_job_node("key: [a, [b]]\n", "job.yaml");
  Texts texts = {"former"};
  EXPECT_THROW(read_value(*root.find("key"), "key", {}, texts), Error);
  EXPECT_EQ(texts, Texts{"former"});
}

TEST(ListOfTexts, IsDescribedForMessagesAndDocumentation) {
  EXPECT_EQ(value_kind({}, Texts()), "a list of texts");
  EXPECT_EQ(value_kind({.choices = {"a", "b"}}, Texts()), "a list, each item a or b");
}

TEST(ListOfTexts, IsWrittenWithQuotesOnlyWhereYamlNeedsThem) {
  EXPECT_EQ(value_text(Texts{}), "[]");
  EXPECT_EQ(value_text(Texts{"loss", "a/b.c"}), "[loss, a/b.c]");
  EXPECT_EQ(value_text(Texts{"host:5000", "a, b", "true", "12", ""}),
            R"(["host:5000", "a, b", "true", "12", ""])");
}

TEST(ListOfTexts, ReadsBackAsItWasWritten) {
  const Texts texts = {"host:5000", "[::1]:80", "a, b",  "it's", "\"quoted\"", "back\\slash", "", " ", "null",
                       "yes",       "-",        "# no!", "{x}",  "&a",         "tab\there",   "ñ"};
  EXPECT_EQ(read_texts(value_text(texts)), texts);
  EXPECT_EQ(read_texts(value_text(Texts{""})), Texts{""});
  EXPECT_EQ(read_texts(value_text(Texts{})), Texts{});
}

}  // namespace
}  // namespace telar
