#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "support/sentences.h"

namespace telar::test {
namespace {

namespace fs = std::filesystem;

/// What telar does when its standard streams cannot be written.
class Output : public testing::Test {
 protected:
  void SetUp() override {
    write_text(folder_ / "small.yaml",
               "model: {name: mlp, options: {hidden: [16]}}\n"
               "data: {source: synthetic, samples: 300, test_samples: 60, shape: [1, 6, 6], classes: 3}\n"
               "training: {epochs: 2, batch: 32}\n");
    write_text(folder_ / "script.py", "import torch\nprint('no training')\n");
  }

  /// Runs telar with the streams that `redirection` gives it: ">/dev/full".
  CommandResult telar(const std::string& arguments, const std::string& redirection) const {
    return telar_in(folder_.path(), arguments, R"(bash -c '"$0" "$@" )" + redirection + "'");
  }

  TempFolder folder_;
};

TEST_F(Output, AResultThatCannotBeWrittenIsAnErrorForEveryVerb) {
  for (const char* arguments :
       {"--version", "train --help", "devices", "devices --json", "show resnet18", "show small.yaml --graph",
        "train small.yaml --check", "train small.yaml --output run", "evaluate run",
        "report run -o report.html"}) {
    const CommandResult full = telar(arguments, ">/dev/full");
    EXPECT_EQ(full.code, 1) << arguments << "\n" << full.err;
    EXPECT_TRUE(says(full.err, "cannot write to standard output: No space left on device")) << arguments;
    EXPECT_EQ(full.err.find("error"), full.err.rfind("error")) << "reported once: " << full.err;
  }
  EXPECT_TRUE(fs::exists(folder_ / "run" / "summary.json")) << "the training itself is complete";
}

TEST_F(Output, APredictionThatCannotBeWrittenIsAnError) {
  std::string table = "a,b,label\n";
  for (int i = 0; i < 60; ++i) table += std::to_string(i % 7) + "," + std::to_string(i % 3) + ",0\n";
  write_text(folder_ / "t.csv", table);
  write_text(
      folder_ / "table.yaml",
      "model: mlp\ndata: {source: csv, path: t.csv, classes: 3, test: 0.2}\ntraining: {epochs: 1, batch: 8}\n");
  ASSERT_EQ(telar("train table.yaml --quiet --output run", "").code, 0);
  write_text(folder_ / "new.csv", "a,b\n0.1,0\n2.5,2\n");
  const CommandResult full = telar("predict run new.csv", ">/dev/full");
  EXPECT_EQ(full.code, 1);
  EXPECT_TRUE(says(full.err, "cannot write to standard output"));
  EXPECT_EQ(telar("predict run new.csv", "").code, 0);
}

TEST_F(Output, AFailureKeepsItsExitCode) {
  EXPECT_EQ(telar("show resnet19", ">/dev/full").code, 2);
  EXPECT_EQ(telar("show resnet18", "2>/dev/full").code, 0);
  EXPECT_EQ(telar("show resnet19", "2>/dev/full").code, 2);
}

TEST_F(Output, AClosedPipeEndsAResultQuietly) {
  const CommandResult shown = telar("show resnet50 --graph", "| head -n 1; exit ${PIPESTATUS[0]}");
  EXPECT_TRUE(shown.code == 0 || shown.code == 128 + SIGPIPE) << shown.code;
  EXPECT_EQ(shown.err, "");
  EXPECT_EQ(std::count(shown.out.begin(), shown.out.end(), '\n'), 1);
}

TEST_F(Output, ATrainingOutlivesTheReaderOfItsOutput) {
  const CommandResult trained =
      telar("train small.yaml --output run --set training.epochs=30", "| true; exit ${PIPESTATUS[0]}");
  EXPECT_EQ(trained.code, 0) << trained.err;
  EXPECT_EQ(trained.err, "");
  EXPECT_EQ(nlohmann::json::parse(read_text(folder_ / "run" / "summary.json")).at("epochs"), 30);
}

TEST_F(Output, ClosedStreamsDoNotReachFiles) {
  ASSERT_EQ(telar("train small.yaml --output quiet", "").code, 0);
  const CommandResult trained = telar("train small.yaml --output run", "<&- >&- 2>&-");
  EXPECT_EQ(trained.code, 0);
  EXPECT_EQ(telar("evaluate run", "").code, 0) << "its checkpoint is undamaged";
  std::ifstream metrics(folder_ / "run" / "metrics.jsonl");
  for (std::string line; std::getline(metrics, line);) {
    EXPECT_TRUE(nlohmann::json::accept(line)) << line;
  }
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "run")) {
    if (!entry.is_regular_file()) continue;
    EXPECT_FALSE(says(read_text(entry.path()), "epoch 1/2")) << entry.path();
  }
}

}  // namespace
}  // namespace telar::test
