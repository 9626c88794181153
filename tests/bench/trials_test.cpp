#include "telar/bench/trials.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "io/temp_folder.h"
#include "support/paths.h"
#include "support/sentences.h"

namespace telar::bench {
namespace {

using test::expect_error;
using test::says;
using test::TempFolder;
using test::write_text;

TrialOptions small_sweep(const TempFolder& folder, std::vector<std::string> vary) {
  write_text(folder / "job.yaml",
             "model: {name: mlp, options: {hidden: [8]}}\n"
             "data: {source: synthetic, samples: 300, shape: [1, 4, 4], classes: 2, validation: 0.2}\n"
             "training: {epochs: 2, batch: 16}\n"
             "output: {tensorboard: false}\n");
  TrialOptions options{test::telar_program(), folder / "job.yaml"};
  options.vary = std::move(vary);
  options.folder = folder / "runs";
  return options;
}

double judged(const ResultRow& row) { return *find_figure(row, "validation loss")->value; }

TEST(VariedKeys, AreListsOfYamlOrRanges) {
  EXPECT_EQ(parse_varied("model.options.hidden=[64, 32], [8],{a: 1, b: \"x,]\"}").values,
            (std::vector<std::string>{"[64, 32]", "[8]", "{a: 1, b: \"x,]\"}"}));
  EXPECT_EQ(parse_varied("a=x=y,z").values, (std::vector<std::string>{"x=y", "z"}));
  const VariedKey rates = parse_varied("optimizer.learning_rate=1e-4..0.1");
  EXPECT_EQ(rates.at(0), "0.0001");
  EXPECT_EQ(rates.at(1.0 / 3), "0.001") << "by its logarithm";
  EXPECT_EQ(parse_varied("a=0..0.5").at(0.5), "0.25");
  EXPECT_EQ(parse_varied("a=-4..4").at(0.5), "0");
  EXPECT_EQ(parse_varied("a=../x,../y").values, (std::vector<std::string>{"../x", "../y"}));
  const VariedKey near_one = parse_varied("a=0.9985..0.99996");
  std::set<std::string> distinct;
  for (double position = 0; position < 1; position += 0.125) {
    distinct.insert(near_one.at(position));
    EXPECT_GE(std::stod(near_one.at(position)), 0.9985);
    EXPECT_LE(std::stod(near_one.at(position)), 0.99996);
  }
  EXPECT_EQ(distinct.size(), 8U);
  const VariedKey widths = parse_varied("a=3..5");
  std::set<std::string> seen;
  for (double position = 0; position < 1; position += 0.125) seen.insert(widths.at(position));
  EXPECT_EQ(seen, (std::set<std::string>{"3", "4", "5"}));
  for (const char* wrong : {"", "a", "a=", "=3", "a=1,,2", "a=1,1", "a=0.1,1e-1", "a=2..1", "a=1..1"})
    expect_error([&] { parse_varied(wrong); }, {"'"});
}

TEST(Sweep, TriesAllCombinationsAndOrdersThem) {
  const TempFolder folder;
  TrialOptions options =
      small_sweep(folder, {"optimizer.learning_rate=0.00001,0.03", "model.options.hidden=[4],[8, 8]"});
  options.at_once = 3;
  const Result result = try_values(options, {});
  ASSERT_EQ(result.rows.size(), 4U);
  EXPECT_EQ(result.settings, (std::vector<std::string>{"learning_rate", "hidden"}));
  std::set<std::vector<std::string>> settings;
  for (const ResultRow& row : result.rows) settings.insert(row.setting);
  EXPECT_EQ(settings.size(), 4U);
  EXPECT_EQ(result.rows[0].setting[0], "0.03");
  EXPECT_EQ(result.rows[3].setting[0], "0.00001");
  for (size_t i = 1; i < 4; ++i) EXPECT_LE(judged(result.rows[i - 1]), judged(result.rows[i]));
  EXPECT_TRUE(says(result.remarks.at(0), "--set \"optimizer.learning_rate=0.03\""));
  EXPECT_TRUE(says(result.remarks.at(1), "optimizer.learning_rate is the greatest"));

  // The run of a trial is that of the same training alone.
  for (const ResultRow& row : result.rows) {
    TrialOptions alone = small_sweep(
        folder, {"optimizer.learning_rate=" + row.setting[0], "model.options.hidden=" + row.setting[1]});
    alone.folder = folder / ("alone" + std::to_string(&row - result.rows.data()));
    EXPECT_NEAR(judged(try_values(alone, {}).rows.at(0)), judged(row), 1e-6);
  }
}

TEST(Sweep, DrawsEachPartOfARangeOnceAndTheSameForASeed) {
  const TempFolder folder;
  TrialOptions options = small_sweep(folder, {"optimizer.learning_rate=0.0001..1"});
  options.trials = 4;
  int drawn = 0;
  const auto tried = [&](int64_t seed) {
    options.seed = seed;
    options.folder = folder / ("seed" + std::to_string(seed) + std::to_string(drawn++));
    std::vector<std::string> values;
    for (const ResultRow& row : try_values(options, {}).rows) values.push_back(row.setting[0]);
    return values;
  };
  const std::vector<std::string> first = tried(1);
  std::set<int> decades;
  for (const std::string& value : first)
    decades.insert(static_cast<int>(std::floor(std::log10(std::stod(value)))));
  EXPECT_EQ(decades.size(), 4U);
  EXPECT_EQ(tried(1), first);
  EXPECT_NE(tried(2), first);
}

TEST(Sweep, GoesOnAfterAStopAndTakesWhatIsDone) {
  const TempFolder folder;
  TrialOptions options = small_sweep(folder, {"optimizer.learning_rate=0.001,0.01,0.1"});
  options.at_once = 1;
  bool stop = false;
  SweepWatch watch;
  watch.stop_requested = [&] { return stop; };
  watch.measured = [&](const Result&) { stop = true; };
  const Result stopped = try_values(options, watch);
  ASSERT_EQ(stopped.rows.size(), 3U);
  EXPECT_EQ(stopped.rows[2].impossible, "the sweep was stopped before this trial");
  options.resume = true;
  const Result whole = try_values(options, {});
  ASSERT_EQ(whole.rows.size(), 3U);
  for (const ResultRow& row : whole.rows) {
    EXPECT_EQ(row.impossible, "");
    if (row.setting == stopped.rows[0].setting) {
      EXPECT_EQ(judged(row), judged(stopped.rows[0]));
    }
  }
  options.vary = {"optimizer.learning_rate=0.002,0.01,0.1"};
  expect_error([&] { try_values(options, {}); }, {"another job", "asked.yaml"});
}

TEST(Sweep, TablesAreResumedToo) {
  const TempFolder folder;
  std::string table = "a,b,label\n";
  for (int i = 0; i < 60; ++i) table += fmt::format("{},{},{}\n", i, i % 7, i % 2);
  write_text(folder / "table.csv", table);
  write_text(folder / "job.yaml",
             "model: {name: mlp}\ndata: {source: csv, path: " + (folder / "table.csv").string() +
                 ", label: label, validation: 0.2}\ntraining: {epochs: 1, batch: 16}\n");
  TrialOptions options{test::telar_program(), folder / "job.yaml"};
  options.vary = {"optimizer.learning_rate=0.001,0.01"};
  options.folder = folder / "runs";
  const Result first = try_values(options, {});
  ASSERT_EQ(first.rows.size(), 2U);
  EXPECT_EQ(first.rows[1].impossible, "");
  options.resume = true;
  EXPECT_EQ(judged(try_values(options, {}).rows.at(0)), judged(first.rows[0]));
}

TEST(Sweep, DrawsFromAllCombinationsOrTriesThemAll) {
  const TempFolder folder;
  TrialOptions options = small_sweep(folder, {"training.seed=1,2", "optimizer.learning_rate=0.01,0.02"});
  options.trials = 30;
  EXPECT_EQ(try_values(options, {}).rows.size(), 4U);
  const std::string ten = "0.001,0.002,0.003,0.004,0.005,0.006,0.007,0.008,0.009,0.01";
  options.vary = {"training.seed=1,2,3,4,5,6,7,8,9,10", "optimizer.learning_rate=" + ten,
                  "optimizer.beta1=" + ten, "optimizer.beta2=" + ten, "optimizer.epsilon=" + ten};
  options.trials = 6;
  options.folder = folder / "more";
  std::set<std::string> seeds;
  for (const ResultRow& row : try_values(options, {}).rows) seeds.insert(row.setting[0]);
  EXPECT_GE(seeds.size(), 5U) << "each sixth of the list is drawn from once";
}

TEST(Sweep, ATrialThatFailsIsARowWithItsReason) {
  const TempFolder folder;
  TrialOptions options = small_sweep(folder, {"optimizer.learning_rate=0.01,1000000"});
  options.settings = {"optimizer.name=sgd", "model.options.hidden=[8, 8, 8]"};
  const Result result = try_values(options, {});
  ASSERT_EQ(result.rows.size(), 2U);
  EXPECT_EQ(result.rows[0].setting[0], "0.01");
  EXPECT_EQ(result.rows[1].setting[0], "1000000");
  EXPECT_NE(result.rows[1].impossible, "");
}

TEST(Sweep, RefusesWhatCannotBeTried) {
  const TempFolder folder;
  const auto refuses = [&](std::vector<std::string> vary, const std::vector<std::string_view>& parts,
                           int64_t trials = 0, std::vector<std::string> settings = {}) {
    TrialOptions options = small_sweep(folder, std::move(vary));
    options.trials = trials;
    options.settings = std::move(settings);
    expect_error([&] { try_values(options, {}); }, parts);
  };
  refuses({}, {"nothing to vary"});
  refuses({"optimizer.learning_rate=1e-4..0.1"}, {"--trials"});
  refuses({"optimizer.learning_rate=1", "optimizer.learning_rate=2"}, {"twice"});
  refuses({"optimizer.learning_rte=1,2"}, {"learning_rate"});
  refuses({"optimizer.learning_rate=1,x"}, {"'x'"});
  refuses({"optimizer.learning_rate=1,2"}, {"validation"}, 0, {"data.validation=0"});
  refuses({"training.seed=1..100000"}, {"10000"}, 100'000);
  EXPECT_FALSE(std::filesystem::exists(folder / "runs")) << "nothing has been trained";
}

}  // namespace
}  // namespace telar::bench
