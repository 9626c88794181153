#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "cli/command.h"
#include "support/sentences.h"

namespace telar::test {
namespace {

const std::string kProfiledJob =
    "model: {name: mlp, options: {hidden: [16]}}\n"
    "data: {source: synthetic, samples: 200, test_samples: 20, shape: [1, 6, 6], classes: 3}\n"
    "training: {epochs: 2, batch: 32}\n"
    "strategy: {threads: 1}\n";

class Profile : public testing::Test {
 protected:
  void SetUp() override {
    write_text(folder_ / "small.yaml", kProfiledJob);
    for (const char* allowed : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"})
      ::setenv(allowed, "1", 1);  // NOLINT(concurrency-mt-unsafe): one thread
  }
  CommandResult telar(const std::string& arguments, const std::string& prefix = "") const {
    return telar_in(folder_.path(), arguments, prefix);
  }
  nlohmann::json json(const std::string& file) const {
    return nlohmann::json::parse(read_text(folder_ / file));
  }

  /// The names of a process's rows in a trace.
  static std::vector<std::string> rows(const nlohmann::json& trace, int process) {
    std::vector<std::string> names;
    for (const auto& event : trace.at("traceEvents"))
      if (event.at("name") == "thread_name" && event.at("pid") == process)
        names.push_back(event.at("args").at("name"));
    return names;
  }

  TempFolder folder_;
};

TEST_F(Profile, WritesATraceAndPhasesInTheSummary) {
  const CommandResult run = telar("train small.yaml --output run --profile --profile-steps 2");
  ASSERT_EQ(run.code, 0) << run.err;
  for (const char* part : {"forward", "exchange", "median ms", "over 9 steps", "run/trace.json"})
    EXPECT_TRUE(says(run.out, part));
  const auto phases = json("run/summary.json").at("phases");
  EXPECT_EQ(phases.at("steps"), 9);
  EXPECT_EQ(phases.at("left_out"), 3);
  double sum = 0;
  for (const auto& [phase, ms] : phases.at("mean_ms").items())
    if (phase != "step") sum += ms.get<double>();
  EXPECT_NEAR(sum, phases.at("mean_ms").at("step").get<double>(), 1e-6);
  const auto trace = json("run/trace.json");
  EXPECT_EQ(rows(trace, 0).size(), 1U);
  std::set<std::string> names;
  int updates = 0;
  for (const auto& event : trace.at("traceEvents")) {
    names.insert(event.at("name"));
    updates += event.at("name") == "update" ? 1 : 0;
    if (event.at("ph") != "X") continue;
    EXPECT_GE(event.at("ts").get<double>(), 0);
    EXPECT_GE(event.at("dur").get<double>(), 0);
  }
  EXPECT_TRUE(names.contains("fc1 linear")) << trace.dump().substr(0, 2000);
  EXPECT_EQ(updates, 2) << "two steps were asked for";
}

TEST_F(Profile, WritesToTheNamedFile) {
  ASSERT_EQ(telar("train small.yaml --output run --profile my.json --quiet").code, 0);
  EXPECT_TRUE(json("my.json").contains("traceEvents"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run" / "trace.json"));
}

TEST_F(Profile, DoesNotChangeTheWeights) {
  ASSERT_EQ(telar("train small.yaml --output with --profile --quiet").code, 0);
  ASSERT_EQ(telar("train small.yaml --output without --quiet").code, 0);
  EXPECT_FALSE(json("without/summary.json").contains("phases"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "without" / "trace.json"));
  const auto weights = [&](const std::string& run) {
    std::string text;
    for (const auto& file : std::filesystem::recursive_directory_iterator(folder_ / run / "checkpoints"))
      if (file.path().filename() == "model.safetensors") text += read_text(file.path());
    return text;
  };
  EXPECT_FALSE(weights("with").empty());
  EXPECT_EQ(weights("with"), weights("without"));
}

/// The name begins with OverMpi so that sanitizer runs leave it out.
class OverMpiProfile : public Profile {};

TEST_F(OverMpiProfile, HasARowForEachProcess) {
  if (std::system("mpirun --version >/dev/null 2>&1") != 0)  // NOLINT(concurrency-mt-unsafe): one thread
    GTEST_SKIP() << "NOT TESTED: there is no mpirun";
  const CommandResult run =
      telar("train small.yaml --set strategy.name=mirrored --set strategy.replicas=1 --output run --profile",
            "timeout 100 mpirun -n 2 --oversubscribe");
  ASSERT_EQ(run.code, 0) << run.err;
  const auto trace = json("run/trace.json");
  for (const int rank : {0, 1}) {
    const std::vector<std::string> names = rows(trace, rank);
    ASSERT_EQ(names.size(), 2U) << "rank " << rank;
    EXPECT_TRUE(says(names[0], "replica 0"));
    EXPECT_TRUE(says(names[1], "communication"));
  }
  EXPECT_GT(json("run/summary.json").at("phases").at("mean_ms").at("exchange").get<double>(), 0);
}

TEST_F(Profile, RefusesAStrategyWithServers) {
  const CommandResult run = telar("train small.yaml --set strategy.name=downpour --output run --profile");
  EXPECT_EQ(run.code, 2);
  EXPECT_TRUE(says(run.err, "downpour"));
  EXPECT_TRUE(says(run.err, "'mirrored'"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

}  // namespace
}  // namespace telar::test
