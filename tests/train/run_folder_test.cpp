#include "telar/train/run_folder.h"

#include <gtest/gtest.h>

#include "io/temp_folder.h"
#include "support/sentences.h"
#include "telar/core/error.h"
#include "telar/train/job_reader.h"
#include "telar/train/run.h"
#include "telar/train/trained.h"

namespace telar {
namespace {

using test::expect_error;
using test::says;

namespace fs = std::filesystem;

const std::string kTinyJob =
    "model: {name: mlp, options: {hidden: [4]}}\n"
    "data: {source: synthetic, samples: 30, test_samples: 5, shape: [1, 2, 2], classes: 2}\n"
    "training: {epochs: 2, batch: 9}\n";

Job tiny_job(const fs::path& folder, std::vector<std::string> overrides = {}) {
  overrides.push_back("output.folder=" + folder.string());
  return parse_job(kTinyJob, "job.yaml", overrides);
}

class FolderOfRun : public testing::Test {
 protected:
  void SetUp() override { run_job(tiny_job(run()), {}); }
  fs::path run() const { return folder_ / "run"; }
  fs::path newest() const { return list_checkpoints(run() / "checkpoints").front(); }
  void train(const fs::path& folder, bool resume) const {
    run_job(tiny_job(folder, {"training.epochs=3"}), {.resume = resume});
  }
  test::TempFolder folder_;
};

TEST_F(FolderOfRun, ItsPartsAreNoRunFolders) {
  const std::string before = test::read_text(newest() / "state.json");
  for (const bool resume : {false, true}) {
    expect_error([&] { train(newest(), resume); },
                 {"is a checkpoint, not the folder of a run", run().string()});
    expect_error([&] { train(newest().string() + "/", resume); }, {"is a checkpoint"});
    expect_error([&] { train(newest() / "new", resume); }, {"is in a checkpoint", run().string()});
    expect_error([&] { train(run() / "checkpoints", resume); }, {"where a run keeps its checkpoints"});
    expect_error([&] { train(run() / "checkpoints" / "new", resume); }, {run().string()});
  }
  EXPECT_EQ(test::read_text(newest() / "state.json"), before);
  EXPECT_FALSE(fs::exists(newest() / "checkpoints"));
  expect_error([&] { find_trained(run() / "checkpoints", false); },
               {"give the run's folder: " + run().string()});
  fs::remove(newest() / "state.json");
  expect_error([&] { train(newest(), true); }, {"is a checkpoint"});
}

TEST_F(FolderOfRun, OnlyWhoKnowsItAsItWasLastMadeKnownTakesItOver) {
  std::string earlier;
  std::string last;
  {
    const RunFolder folder = RunFolder::resume(tiny_job(run()));
    earlier = folder.make_known();
    last = folder.make_known();
    // It does not kill the process that has it, which is this one.
    expect_error([&] { RunFolder::take_over(run(), earlier, [] { return true; }); },
                 {"the run has gone on without this process"}, Error::Kind::run);
  }
  EXPECT_EQ(RunFolder::take_over(run(), last, [] { return false; }).path(), run());
  RunFolder::resume(tiny_job(run())).make_unknown();
  expect_error([&] { RunFolder::take_over(run(), last, [] { return false; }); },
               {"the run has gone on without this process"}, Error::Kind::run);
}

TEST_F(FolderOfRun, ADamagedCheckpointIsReportedByWhoeverUsesAnOlderOne) {
  fs::resize_file(newest() / "model.safetensors", 10);
  const fs::path older = list_checkpoints(run() / "checkpoints").at(1);
  std::string warned;
  const Trained trained = load_trained(run(), false, {}, [&](const std::string& text) { warned += text; });
  EXPECT_EQ(trained.checkpoint, older);
  EXPECT_TRUE(says(warned, newest().filename().string()));
  EXPECT_EQ(trained.skipped.size(), 1U);
}

TEST_F(FolderOfRun, AModelThatTheMachineCannotHoldIsNotLoaded) {
  expect_error([&] { load_trained(run(), false, {"model.options.hidden=[1048576, 1048576]"}); },
               {"may be used here", "fc2.weight"});
}

TEST_F(FolderOfRun, ADamagedLastCheckpointIsWrittenAgain) {
  const std::string weights = test::read_text(newest() / "model.safetensors");
  fs::resize_file(newest() / "model.safetensors", 10);
  const RunSummary again = run_job(tiny_job(run()), {.resume = true});
  EXPECT_EQ(again.checkpoint, newest().string());
  EXPECT_EQ(test::read_text(newest() / "model.safetensors"), weights);
  EXPECT_TRUE(fs::exists(newest().string() + ".damaged")) << "kept for whoever can repair it";
}

TEST_F(FolderOfRun, LinksInItAreNotFollowed) {
  test::write_text(folder_ / "victim", "precious");
  for (const std::string name : {"metrics.jsonl", "summary.json", "job.yaml", "data.json"}) {
    fs::rename(run() / name, folder_ / "kept");
    fs::create_symlink(folder_ / "victim", run() / name);
    expect_error([&] { train(run(), true); }, {(run() / name).string() + " is a symbolic link"});
    fs::remove(run() / name);
    fs::rename(folder_ / "kept", run() / name);
  }
  fs::create_directory(folder_ / "elsewhere");
  fs::create_directory_symlink(folder_ / "elsewhere", run() / "checkpoints" / "step-00000009");
  expect_error([&] { train(run(), true); }, {"step-00000009 is a symbolic link"});
  fs::remove(run() / "checkpoints" / "step-00000009");
  EXPECT_EQ(test::read_text(folder_ / "victim"), "precious");
  EXPECT_TRUE(fs::is_empty(folder_ / "elsewhere"));

  fs::create_directory_symlink(run(), folder_ / "link");
  EXPECT_NO_THROW(train(folder_ / "link", true)) << "the run folder itself may be a link";
}

TEST(FolderOfFailedRun, TheSameCommandCanStartAgain) {
  const test::TempFolder folder;
  const Job job = tiny_job(folder / "run", {"strategy=downpour"});
  for (int attempt = 0; attempt < 2; ++attempt) {
    EXPECT_THROW(run_job(job, {.program = "/no/such/program"}), Error);
    EXPECT_FALSE(fs::exists(folder / "run" / "job.yaml"));
  }
  EXPECT_EQ(run_job(tiny_job(folder / "run"), {}).epochs, 2) << "its logs do not matter";
}

}  // namespace
}  // namespace telar
