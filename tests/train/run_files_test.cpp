#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

#include "support/sentences.h"
#include "telar/core/error.h"
#include "telar/train/job.h"
#include "telar/train/sample_file.h"
#include "telar/train/training_state.h"

namespace telar {
namespace {

using test::expect_error;

struct Wrong {
  std::string field;
  std::string value;  ///< JSON
  std::string said;
};

/// The document with one field replaced.
std::string with(const std::string& text, const Wrong& wrong) {
  auto json = nlohmann::json::parse(text);
  json[wrong.field] = "@";
  std::string changed = json.dump();
  return changed.replace(changed.find("\"@\""), 3, wrong.value);
}

std::string state_text() {
  TrainingState state;
  state.epoch = 2;
  state.step_in_epoch = 1;
  state.step = 13;
  state.samples = 400;
  state.epoch_samples = 32;
  state.epoch_sums = {1.5, 3};
  state.best = 0.25;
  state.updates = 5;
  return to_json(state);
}

TEST(StateFile, AMetricThatIsNotFiniteIsReadAgain) {
  TrainingState state;
  state.step = state.step_in_epoch = 1;
  state.epoch_samples = 32;
  state.epoch_sums = {1.5, -std::numeric_limits<double>::infinity()};
  const TrainingState read = training_state_from_json(to_json(state), "state.json");
  EXPECT_EQ(read.epoch_sums[0], 1.5);
  EXPECT_TRUE(std::isnan(read.epoch_sums[1]));
}

TEST(StateFile, EveryFieldIsChecked) {
  const std::string text = state_text();
  ASSERT_EQ(to_json(training_state_from_json(text, "state.json")), text);
  const std::vector<Wrong> all = {
      {"epoch", "-1", "epoch is -1; it must be an integer from 0 to 1000000000"},
      {"epoch", "12345678901234567890", "epoch is 12345678901234567890; it must be"},
      {"epoch", "123456789012345678901234567890", "epoch is 1.23"},
      {"epoch", "1.5", "epoch is 1.5"},
      {"epoch", "\"x\"", "epoch is \"x\""},
      {"epoch", "null", "epoch is null"},
      {"epoch", "[1, 2]", "epoch is a list of 2 values"},
      {"step_in_epoch", "9223372036854775807", "step_in_epoch is 9223372036854775807"},
      {"position", "\"0g\"", "position is \"0g\"; it must be at most 4194304 hexadecimal digits"},
      {"position", "\"012\"", "position is \"012\""},
      {"position", "12", "position is 12"},
      {"order_version", "0", "order_version is 0; it must be an integer from 1 to"},
      {"step", "18446744073709551616", "step is "},
      {"samples", "-5", "samples is -5"},
      {"updates", "-1", "updates is -1; it must be an integer from 0 to"},
      {"seconds", "-0.5", "seconds is -0.5; it must be a number, at least 0"},
      {"epoch_samples", "0", "epoch_samples is 0; it must be at least 1, because epoch_sums has values"},
      {"epoch_sums", "[]", "epoch_samples is 32; it must be 0, because epoch_sums is empty"},
      {"epoch_sums", "[1, \"a\"]", "epoch_sums contains \"a\"; it must be a list of finite numbers"},
      {"epoch_sums", "7", "epoch_sums is 7"},
      {"best", "\"good\"", "best is \"good\"; it must be a finite number"},
      {"best_step", "99", "best_step is 99; it must be at most the 13 steps in total"},
      {"epochs_since_best", "3", "epochs_since_best is 3; it must be at most the 2 complete epochs"},
      {"stopped_early", "1", "stopped_early is 1; it must be true or false"},
  };
  for (const Wrong& wrong : all) {
    expect_error([&] { training_state_from_json(with(text, wrong), "run/state.json"); },
                 {"run/state.json: " + wrong.said});
  }
  const auto whole = nlohmann::json::parse(text);
  for (const auto& [name, value] : whole.items()) {
    if (name == "order_version" || name == "position" || name == "updates" || name == "left_out") continue;
    auto without = whole;
    without.erase(name);
    expect_error([&] { training_state_from_json(without.dump(), "state.json"); },
                 {"state.json: the field " + name + " is missing"});
  }
}

TEST(StateFile, AStateOfBeforeTheOrderHadAVersionIsOfTheFirst) {
  auto json = nlohmann::json::parse(state_text());
  json.erase("order_version");
  EXPECT_EQ(training_state_from_json(json.dump(), "state.json").order_version, 1);
}

TEST(StateFile, WhatIsNoObjectIsRefused) {
  const auto read = [](const std::string& text) { training_state_from_json(text, "state.json"); };
  expect_error([&] { read("{\"epoch\": "); }, {"state.json is not JSON"});
  expect_error([&] { read("{\"epoch\": 1e999}"); }, {"state.json is not JSON"});
  expect_error([&] { read("[1, 2]"); }, {"state.json is a list of 2 values; it must be a JSON object"});
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  expect_error([&] { read("{\"epoch\": " + deep + "}"); }, {"state.json is nested more than 16 deep"});
}

TEST(StateFile, ThePositionMustBeInTheEpoch) {
  const TrainingState state = training_state_from_json(state_text(), "s");
  check_position(state, {6, 2}, "s");
  check_position(state, {1, 2}, "s");  // stopped in the validation after the epoch's last step
  expect_error(
      [&] {
        check_position(state, {0, 2}, "s");
      },
      {"s: step_in_epoch is 1; an epoch of this job has 0 steps"});
  expect_error(
      [&] {
        check_position(state, {6, 3}, "s");
      },
      {"epoch_sums has 2 values", "each of the 3 metrics"});
}

TEST(SampleFile, EveryFieldIsChecked) {
  const SampleSpec spec{.features = {1, 4, 4}, .classes = 2, .class_names = {"cat", "dog"}};
  const std::string text = to_json(spec, kNewestRules);
  EXPECT_EQ(sample_rules_from_json(text, "samples.json"), kNewestRules);
  EXPECT_EQ(sample_rules_from_json("{}", "samples.json"), kFirstRules) << "the file of a run from before";
  expect_error(
      [&] {
        sample_rules_from_json(with(text, {"rules", "7", ""}), "samples.json");
      },
      {"rules is 7"});
  ASSERT_EQ(to_json(sample_spec_from_json(text, "samples.json"), kNewestRules), text);
  const std::vector<Wrong> all = {
      {"classes", "-2", "classes is -2; it must be an integer from 0 to 1000000"},
      {"classes", "3", "class_names is a list of 2 values; it must be empty, or a list of 3 names"},
      {"features", "[]", "features is a list of 0 values; it must be a list of at least one extent"},
      {"features", "[1, 0]", "features contains 0; it must be a list of integers from 1"},
      {"features", "[1, -3]", "features contains -3"},
      {"features", "[1, 9223372036854775807]", "features contains 9223372036854775807"},
      {"features", "\"\"", "features is \"\""},
      {"dtype", "\"f64\"", "dtype is \"f64\"; it must be f32 or i32"},
      {"dtype", "1", "dtype is 1"},
      {"targets", "[0]", "targets contains 0"},
      {"class_names", "[1, 2]", "class_names contains 1; it must be a list of texts"},
  };
  for (const Wrong& wrong : all) {
    expect_error([&] { sample_spec_from_json(with(text, wrong), "samples.json"); },
                 {"samples.json: " + wrong.said});
  }
  expect_error(
      [&] {
        sample_spec_from_json(with(text, {"classes", "0", ""}), "samples.json");
      },
      {"targets is a list of 0 values"});
}

}  // namespace
}  // namespace telar
