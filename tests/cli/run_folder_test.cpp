#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "support/sentences.h"

namespace telar::test {
namespace {

namespace fs = std::filesystem;

const std::string kRunJob =
    "model: {name: mlp, options: {hidden: [4]}}\n"
    "data: {source: csv, path: table.csv, classes: 2, test: 0.2}\n"
    "training: {epochs: 2, batch: 10}\n"
    "strategy: {threads: 1}\n";

class FinishedRun : public testing::Test {
 protected:
  void SetUp() override {
    std::string table = "a,b,label\n";
    for (int row = 0; row < 80; ++row) table += fmt::format("{},{},{}\n", row % 10, row % 7, row % 2);
    write_text(folder_ / "table.csv", table);
    write_text(folder_ / "inputs.csv", "a,b\n1,2\n3,4\n");
    write_text(folder_ / "job.yaml", kRunJob);
    ASSERT_EQ(telar("train job.yaml --output run --quiet").code, 0);
    for (const auto& entry : fs::directory_iterator(folder_ / "run" / "checkpoints"))
      newest_ = std::max(newest_, entry.path());
  }

  CommandResult telar(const std::string& arguments) const { return telar_in(folder_.path(), arguments); }

  void expect_refused(const std::string& arguments, const std::string& part) const {
    const CommandResult result = telar(arguments);
    EXPECT_EQ(result.code, 2) << arguments << "\n" << result.out;
    EXPECT_TRUE(says(result.err, part)) << arguments;
  }

  std::string checkpoint() const { return "run/checkpoints/" + newest_.filename().string(); }

  TempFolder folder_;
  fs::path newest_;
};

TEST_F(FinishedRun, ItsPartsAreRefusedWithTheNameOfItsFolder) {
  for (const char* ending : {"", " --resume", "/ --resume", " --resume --output other"})
    expect_refused("train " + checkpoint() + ending, "give the run's folder: run\n");
  expect_refused("train run/checkpoints --resume", "give the run's folder: run\n");
  expect_refused("train job.yaml --resume --output " + checkpoint(), "give the run's folder: run\n");
  expect_refused("train run/job.yaml --resume", "telar train run --resume");
  expect_refused("train " + checkpoint() + "/job.yaml --resume", "is a checkpoint");
  expect_refused("evaluate run/checkpoints", "give the run's folder: run\n");
  expect_refused("report " + checkpoint(), "give the run's folder: run\n");
  expect_refused("show run", "run/job.yaml");
  EXPECT_FALSE(fs::exists(newest_ / "checkpoints"));
  EXPECT_EQ(telar("evaluate run").code, 0);
}

TEST_F(FinishedRun, EveryCommandSaysWhichCheckpointItUses) {
  const std::string used = checkpoint();
  EXPECT_TRUE(says(telar("evaluate run").out, used));
  const CommandResult predicted = telar("predict run inputs.csv");
  EXPECT_EQ(predicted.err, "checkpoint: " + used + "\n");
  EXPECT_EQ(predicted.out.rfind("input,sample,class", 0), 0U);

  fs::resize_file(newest_ / "model.safetensors", 10);
  for (const char* command : {"evaluate run", "predict run inputs.csv"}) {
    const CommandResult result = telar(command);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_TRUE(says(result.err, "warning: the checkpoint " + used + " is damaged and was skipped"));
    EXPECT_TRUE(says(result.err, "model.safetensors has 10 bytes"));
  }
  EXPECT_EQ(telar("evaluate run --quiet --summary s.json").code, 0);
  const auto summary = nlohmann::json::parse(read_text(folder_ / "s.json"));
  EXPECT_EQ(summary.at("skipped").size(), 1U);
  EXPECT_NE(summary.at("checkpoint"), used);
}

TEST_F(FinishedRun, HasNothingToDo) {
  const CommandResult resumed = telar("train run --resume --summary s.json");
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_TRUE(says(resumed.out, "nothing to do in run: all 2 epochs are done; to train longer"));
  EXPECT_EQ(resumed.out.find("samples/s"), std::string::npos);
  EXPECT_EQ(read_text(folder_ / "s.json"), read_text(folder_ / "run" / "summary.json"));
}

TEST_F(FinishedRun, SaysThatItStoppedEarly) {
  const CommandResult early = telar(
      "train job.yaml --output early --set training.epochs=30 --set training.early_stopping.patience=1 --set optimizer.learning_rate=1e-12");
  EXPECT_EQ(early.code, 0) << early.err;
  EXPECT_TRUE(says(early.out, "of 30 epochs: the validation loss has not improved for 1 epochs"));
}

TEST_F(FinishedRun, ChangesAreTakenFromAnEditedJobAndPrinted) {
  std::string job = read_text(folder_ / "run" / "job.yaml");
  job.replace(job.find("batch: 10"), 9, "batch: 20");
  write_text(folder_ / "run" / "job.yaml", job);
  const CommandResult resumed = telar("train run --resume --set training.epochs=3");
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_TRUE(says(resumed.out, "changed: training.batch: 10 → 20"));
  EXPECT_TRUE(says(resumed.out, "changed: training.epochs: 2 → 3"));
}

}  // namespace
}  // namespace telar::test
