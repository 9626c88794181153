#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "io/temp_folder.h"
#include "support/picture_folder.h"
#include "support/sentences.h"
#include "telar/comm/store/store_server.h"
#include "telar/core/error.h"
#include "telar/runtime/server_update.h"
#include "telar/train/job_reader.h"
#include "telar/train/run.h"
#include "telar/train/worker.h"

namespace telar {
namespace {

namespace fs = std::filesystem;

/// A coordinator and one worker that see different folders of images.
class WorkerWithOtherData : public testing::Test {
 protected:
  static Security security() { return {.token = "a-token-of-this-test"}; }

  Job job_with(const std::string& strategy, const std::string& run) const {
    return parse_job(
        fmt::format("model: {{name: mlp, options: {{hidden: [4]}}}}\n"
                    "data: {{source: images, path: {}, shape: [3, 8, 8], validation: 0.2, on_error: skip}}\n"
                    "optimizer: {{name: sgd, learning_rate: 0.01}}\n"
                    "training: {{epochs: 2, batch: 4}}\n"
                    "strategy: {}\n"
                    "output: {{folder: {}, tensorboard: false}}\n",
                    coordinator_.path().string(), strategy, (folder_ / run).string()),
        "job.yaml");
  }

  /// Ends when the training is over or the worker has ended.
  RunSummary run() {
    const StoreServer server({.security = security(), .make_update = program_updates()});
    const Job job =
        job_with(fmt::format("{{name: downpour, workers: 1, threads: 1, server_addresses: [\"{}\"]}}",
                             server.address()),
                 "run");
    std::thread worker;
    RunOptions options;
    options.coordinate = "127.0.0.1:0";
    options.security = security();
    options.stop_requested = [this] { return ended_.load(); };
    options.say = [&](const std::string& text) {
      const std::string command = "telar work --join ";
      const size_t found = text.find(command);
      if (found != std::string::npos)
        worker = std::thread([this, address = text.substr(found + command.size())] { work_at(address); });
    };
    RunSummary summary = run_job(job, options);
    worker.join();
    return summary;
  }

  void work_at(const std::string& coordinator) {
    try {
      work({.coordinator = coordinator,
            .security = security(),
            .overrides = {"data.path=" + worker_.path().string()},
            .stop = {},
            .say = {}});
    } catch (const Error& error) {
      refusal_ = error.what();
      ended_ = true;
    }
  }

  test::TempFolder folder_;
  test::PictureFolder coordinator_{folder_ / "coordinator"};
  test::PictureFolder worker_{folder_ / "worker"};
  std::atomic<bool> ended_ = false;
  std::string refusal_;
};

TEST_F(WorkerWithOtherData, LeavesOutWhatTheCoordinatorLeavesOut) {
  for (const int i : {0, 1, 2, 3, 10, 11, 12, 13}) coordinator_.damage_inside(i);
  const RunSummary summary = run();
  EXPECT_EQ(refusal_, "");
  EXPECT_EQ(summary.outcome, FitOutcome::finished);
  EXPECT_EQ(summary.left_out_samples, 8);
  const RunSummary alone = run_job(job_with("{name: single, threads: 1}", "alone"), {});
  EXPECT_EQ(summary.steps, alone.steps);
  EXPECT_NEAR(summary.train.at(0), alone.train.at(0), 1e-5 * alone.train.at(0)) << "other samples were used";
}

TEST_F(WorkerWithOtherData, IsRefused) {
  fs::remove(worker_.file(4));
  EXPECT_EQ(run().outcome, FitOutcome::stopped);
  EXPECT_TRUE(test::says(refusal_, "differ from those of the coordinator: "));
  EXPECT_TRUE(test::says(refusal_, "files of data.path/cats: 10 at the coordinator, 9 here"));
}

}  // namespace
}  // namespace telar
