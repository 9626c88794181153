#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "io/temp_folder.h"
#include "support/make_session.h"
#include "support/sentences.h"
#include "telar/comm/listening.h"
#include "telar/comm/store/store_server.h"
#include "telar/core/error.h"
#include "telar/io/safetensors.h"
#include "telar/runtime/server_update.h"
#include "telar/train/checkpoint.h"
#include "telar/train/job_reader.h"
#include "telar/train/run.h"
#include "telar/train/worker.h"

namespace telar {
namespace {

namespace fs = std::filesystem;

/// A job of 100 steps. The MLP has few ReLUs, and the optimizer has no state that could hide a difference.
const std::string kJob =
    "model: {name: mlp, options: {hidden: [16]}}\n"
    "data: {source: synthetic, samples: 1600, test_samples: 50, shape: [1, 6, 6], classes: 3, validation: 0}\n"
    "optimizer: {name: sgd, learning_rate: 0.01}\n"
    "training: {epochs: 2, batch: 32}\n"
    "output: {tensorboard: false}\n";

/// Runs a job with parameter servers and workers as threads of this process; run_job is the coordinator.
class TestedCluster {
 public:
  TestedCluster(int servers, int workers, std::vector<std::string> of_workers = {})
      : workers_(workers), of_workers_(std::move(of_workers)) {
    for (int s = 0; s < servers; ++s) {
      servers_.push_back(std::make_unique<StoreServer>(
          StoreServerOptions{.security = security(), .make_update = program_updates()}));
    }
  }

  RunSummary run(std::vector<std::string> overrides, const fs::path& folder, RunOptions options = {}) {
    std::string addresses;
    for (const auto& server : servers_) addresses += (addresses.empty() ? "" : ", ") + server->address();
    overrides.push_back("strategy.server_addresses=[" + addresses + "]");
    overrides.push_back("strategy.servers=" + std::to_string(servers_.size()));
    overrides.push_back("strategy.threads=1");
    overrides.push_back("output.folder=" + folder.string());
    options.coordinate = "127.0.0.1:0";
    options.security = security();
    options.say = [this](const std::string& text) { listen(text); };
    const RunSummary summary = run_job(parse_job(kJob, "job.yaml", overrides), options);
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    return summary;
  }

  static Security security() { return {.token = "a-token-of-this-test"}; }

 private:
  void listen(const std::string& text) {
    const std::string command = "telar work --join ";
    const size_t found = text.find(command);
    if (found == std::string::npos) return;
    const std::string coordinator = text.substr(found + command.size());
    for (int w = 0; w < workers_; ++w) {
      threads_.emplace_back([address = coordinator, overrides = of_workers_] {
        work({.coordinator = address, .security = security(), .overrides = overrides, .stop = {}, .say = {}});
      });
    }
  }

  int workers_;
  std::vector<std::string> of_workers_;  ///< the --set options of the workers
  std::vector<std::unique_ptr<StoreServer>> servers_;
  std::vector<std::thread> threads_;
};

/// The losses of all steps, in the order of steps.
std::vector<double> losses_of(const fs::path& folder) {
  std::vector<double> losses;
  std::ifstream file(folder / "metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json.at("kind") == "step") losses.push_back(json.at("loss").get<double>());
  }
  return losses;
}

struct Case {
  std::string name;
  std::vector<std::string> overrides;
  int servers;
  int workers;
};

class ClusterEquality : public testing::TestWithParam<Case> {};

TEST_P(ClusterEquality, LossesOfAHundredStepsEqualASingleProcess) {
  const test::TempFolder folder;
  const RunSummary single = run_job(
      parse_job(kJob, "job.yaml", {"strategy.threads=1", "output.folder=" + (folder / "single").string()}),
      {});
  const auto& [name, overrides, servers, workers] = GetParam();
  const RunSummary summary = TestedCluster(servers, workers).run(overrides, folder / "cluster");
  EXPECT_EQ(summary.steps, single.steps);
  const std::vector<double> expected = losses_of(folder / "single");
  const std::vector<double> losses = losses_of(folder / "cluster");
  ASSERT_EQ(losses.size(), 100U);
  for (size_t i = 0; i < losses.size(); ++i)
    EXPECT_NEAR(losses[i], expected[i], 1e-5 * expected[i]) << "step " << i + 1;
  ASSERT_FALSE(summary.test.empty());
  EXPECT_NEAR(summary.test[0], single.test[0], 1e-5 * single.test[0]);
}

/// All parameters after one step at this learning rate, concatenated.
std::vector<float> parameters_after_a_step(double rate, std::vector<std::string> overrides, int servers,
                                           int workers) {
  const test::TempFolder folder;
  overrides.push_back("data.samples=32");
  overrides.push_back("training.epochs=1");
  overrides.push_back("optimizer.learning_rate=" + std::to_string(rate));
  std::string checkpoint;
  if (servers > 0) {
    checkpoint = TestedCluster(servers, workers).run(overrides, folder / "run").checkpoint;
  } else {
    overrides.push_back("output.folder=" + (folder / "run").string());
    checkpoint = run_job(parse_job(kJob, "job.yaml", overrides), {}).checkpoint;
  }
  std::vector<float> all;
  for (const NamedTensor& tensor : read_safetensors(fs::path(checkpoint) / "model.safetensors"))
    all.insert(all.end(), tensor.data.begin(), tensor.data.end());
  return all;
}

/// The gradient of a step of SGD, computed from the parameters after a step at two different learning rates.
/// The rates are so large that rounding errors do not matter.
std::vector<float> gradient_of_a_step(const std::vector<std::string>& overrides, int servers, int workers) {
  std::vector<float> gradient = parameters_after_a_step(1000, overrides, servers, workers);
  const std::vector<float> further = parameters_after_a_step(3000, overrides, servers, workers);
  for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = (gradient[i] - further[i]) / 2000;
  return gradient;
}

TEST_P(ClusterEquality, TheGradientOfAStepEqualsASingleProcess) {
  const auto& [name, overrides, servers, workers] = GetParam();
  const std::vector<float> expected = gradient_of_a_step({"strategy.threads=1"}, 0, 0);
  const std::vector<float> gradient = gradient_of_a_step(overrides, servers, workers);
  ASSERT_EQ(gradient.size(), expected.size());
  EXPECT_LT(test::relative_l2(gradient, expected), 1e-6);
}

/// Copies a run and restores the state that it had after its first checkpoint within an epoch.
fs::path as_after_first_checkpoint(const fs::path& run, const fs::path& copy) {
  fs::copy(run, copy, fs::copy_options::recursive);
  std::vector<fs::path> checkpoints = list_checkpoints(copy / "checkpoints");  // newest first
  checkpoints.pop_back();
  for (const fs::path& later : checkpoints) fs::remove_all(later);
  return copy;
}

TEST(Cluster, ARunResumedWithinAnEpochSkipsNothing) {
  const test::TempFolder folder;
  const std::string one_thread = "strategy.threads=1";
  run_job(parse_job(kJob, "job.yaml", {one_thread, "output.folder=" + (folder / "single").string()}), {});
  const std::vector<double> expected = losses_of(folder / "single");
  for (const std::string strategy : {"sync_ps", "downpour"}) {
    const std::vector<std::string> overrides = {"strategy.name=" + strategy, "strategy.workers=2",
                                                "output.checkpoint_steps=7", "output.keep=100"};
    const fs::path run = folder / strategy;
    TestedCluster(2, 2).run(overrides, run);
    const std::vector<fs::path> checkpoints = list_checkpoints(run / "checkpoints");
    EXPECT_GE(checkpoints.size(), 5U)
        << "a lease has 8 steps, and a checkpoint waits until two leases have ended";
    for (const fs::path& checkpoint : checkpoints) {
      const TrainingState state = verify_checkpoint(checkpoint);
      EXPECT_EQ(state.samples, 32 * state.step) << checkpoint;
    }

    const fs::path copy = as_after_first_checkpoint(run, folder / (strategy + "-resumed"));
    const TrainingState from = verify_checkpoint(list_checkpoints(copy / "checkpoints").at(0));
    EXPECT_GT(from.step_in_epoch, 0);
    EXPECT_LT(from.step_in_epoch, 50);
    RunOptions resume;
    resume.resume = true;
    const RunSummary summary = TestedCluster(2, 2).run(overrides, copy, resume);
    EXPECT_EQ(summary.steps, 100);
    EXPECT_EQ(summary.losses->updates, 100) << "since the run's beginning";
    const std::vector<double> losses = losses_of(copy);
    ASSERT_EQ(losses.size(), 100U);
    if (strategy != "sync_ps") continue;
    for (size_t i = 0; i < losses.size(); ++i)
      EXPECT_NEAR(losses[i], expected[i], 1e-5 * expected[i]) << "step " << i + 1;
  }
}

TEST(Cluster, ServersThatStillRunAcceptAResumedRunWithOtherEpochsAndCheckpoints) {
  const test::TempFolder folder;
  TestedCluster cluster(2, 1);
  std::vector<std::string> overrides = {"strategy.name=downpour", "strategy.workers=1", "training.epochs=1"};
  EXPECT_EQ(cluster.run(overrides, folder / "run").steps, 50);
  RunOptions resume;
  resume.resume = true;
  overrides.back() = "training.epochs=2";
  for (const char* more :
       {"output.checkpoint_steps=7", "output.keep=9", "data.prefetch=2", "strategy.snapshot_seconds=3"})
    overrides.emplace_back(more);
  EXPECT_EQ(cluster.run(overrides, folder / "run", resume).steps, 100);
  overrides[2] = "training.epochs=3";
  overrides.emplace_back("optimizer.weight_decay=0.1");
  test::expect_error([&] { cluster.run(overrides, folder / "run", resume); },
                     {"holds other parameters for this job, or has another update: the update of '",
                      "weight_decay=0} on the server, but sgd_update", "weight_decay=0.1} in the run"});
}

TEST(Cluster, KilledProcessesAreCounted) {
  const test::TempFolder folder;
  const RunSummary summary =
      TestedCluster(2, 1).run({"strategy.name=downpour", "strategy.workers=1"}, folder / "run");
  ASSERT_TRUE(summary.losses.has_value());
  EXPECT_EQ(losses_text(*summary.losses), "") << "nothing was killed";
  const auto json = nlohmann::json::parse(to_json(summary)).at("losses");
  EXPECT_EQ(json.at("lost_updates"), (std::vector<int>{0, 0}));
  EXPECT_EQ(json.at("updates"), summary.steps) << "one push for each step";
  EXPECT_EQ(json.at("lost_workers"), 0);

  const std::string text = losses_text({.servers = {{}, {.restarts = 6, .updates = 137}, {.restarts = 1}},
                                        .workers = {.members = 1, .parts = 3}});
  EXPECT_TRUE(test::says(text, "parameter server 1: 6 restarts, 137 updates lost since its snapshots"));
  EXPECT_TRUE(test::says(text, "parameter server 2: 1 restart, 0 updates lost"));
  const RunLosses unknown{
      .servers = {{.restarts = 2, .updates = 5, .unknown = 1}, {.restarts = 1, .unknown = 1}}, .workers = {}};
  EXPECT_TRUE(test::says(losses_text(unknown), "parameter server 0: 2 restarts, at least 5 updates lost"));
  EXPECT_TRUE(
      test::says(losses_text(unknown), "parameter server 1: 1 restart, an unknown number of updates lost"));
  RunSummary known = summary;
  known.losses = unknown;
  EXPECT_TRUE(nlohmann::json::parse(to_json(known)).at("losses").at("lost_updates").at(0).is_null());
  EXPECT_TRUE(test::says(text, "1 worker lost; others did the 3 parts of batches that they left"));
}

TEST(Cluster, WhatARunHasLostIsAddedToWhatItLosesWhenItIsResumed) {
  const RunLosses before{.servers = {{.restarts = 1, .updates = 3, .unknown = 1}, {}},
                         .workers = {.members = 1, .parts = 2},
                         .updates = 50};
  const RunLosses more{.servers = {{.restarts = 2, .updates = 4}}, .workers = {.members = 1}, .updates = 7};
  const RunLosses all{.servers = {{.restarts = 3, .updates = 7, .unknown = 1}, {}},
                      .workers = {.members = 2, .parts = 2},
                      .updates = 57};
  EXPECT_EQ(before.with(more), all);
  EXPECT_EQ(more.with(before), all);
  TrainingState state;
  state.losses = all;
  EXPECT_EQ(training_state_from_json(to_json(state), "state.json"), state);
  std::string text = to_json(state);
  text.replace(text.find("\"unknown\": ["), 12, "\"unknown\": [ 1,");
  test::expect_error([&] { training_state_from_json(text, "state.json"); },
                     {"state.json, losses", "unknown", "a list of 2 numbers, as restarts is"});
}

TEST(Cluster, ARunThatLostMoreThanATenthOfItsUpdatesWarns) {
  const auto warning = [](const std::vector<StoreLosses>& servers) {
    return losses_warning({.servers = servers, .workers = {}, .updates = 100});
  };
  EXPECT_EQ(warning({{}, {.restarts = 1, .updates = 10}}), "");
  EXPECT_TRUE(test::says(warning({{}, {.restarts = 3, .updates = 11}}),
                         "parameter server 1 has lost 11 updates of 100: the result is not"));
  EXPECT_TRUE(test::says(warning({{.restarts = 1, .unknown = 1}}),
                         "server 0 has lost an unknown number of updates of"));
  RunSummary summary;
  summary.losses = {.servers = {{.restarts = 3, .updates = 99}}, .workers = {}, .updates = 100};
  const auto json = nlohmann::json::parse(to_json(summary));
  EXPECT_TRUE(test::says(json.at("warning").get<std::string>(), "server 0 has lost 99 updates of 100"));
  EXPECT_EQ(json.at("losses").at("updates"), 100);
  summary.losses->servers.front().updates = 1;
  EXPECT_EQ(nlohmann::json::parse(to_json(summary)).at("warning"), "");
  summary.after_checkpoint = "not copied";
  EXPECT_EQ(nlohmann::json::parse(to_json(summary)).at("warning"), "not copied");
}

TEST(Cluster, AnAddressForWorkersNeedsServersThatTheyCanReach) {
  const test::TempFolder folder;
  RunOptions options;
  options.coordinate = "127.0.0.1:0";
  const auto run = [&](const std::string& strategy) {
    run_job(parse_job(kJob, "job.yaml",
                      {"strategy.name=" + strategy, "output.folder=" + (folder / "run").string()}),
            options);
  };
  test::expect_error([&] { run("single"); }, {"strategy 'single'"});
  test::expect_error([&] { run("sync_ps"); }, {"strategy.server_addresses is empty"});
}

TEST(Cluster, ATakenPortIsRefusedBeforeServersAreTouched) {
  const test::TempFolder folder;
  const Listening taken(Address::parse("127.0.0.1:0"));
  RunOptions options;
  options.coordinate = fmt::format("127.0.0.1:{}", taken.port());
  options.stop_requested = [] { return true; };  // it would wait for the servers
  test::expect_error(
      [&] {
        run_job(parse_job(kJob, "job.yaml",
                          {"strategy.name=sync_ps", "strategy.server_addresses=[127.0.0.1:1]",
                           "output.folder=" + (folder / "run").string()}),
                options);
      },
      {"Listening on 127.0.0.1", "already in use"});
}

TEST(Cluster, WorkersCanOverrideTheDeviceAndTheCoordinatorFallsBackToTheCpu) {
  const test::TempFolder folder;
  std::string warning;
  RunOptions options;
  options.warn = [&](const std::string& text) { warning += text; };
  const RunSummary summary = TestedCluster(1, 1, {"device=cpu", "training.precision=f32"})
                                 .run({"strategy.name=downpour", "device=cuda:99", "training.precision=tf32"},
                                      folder / "run", options);
  EXPECT_EQ(summary.steps, 100);
  EXPECT_FALSE(summary.test.empty());
  EXPECT_TRUE(test::says(warning, "cuda:99"));
  EXPECT_TRUE(test::says(warning, "evaluates samples on the CPU"));
  EXPECT_TRUE(test::says(read_job(folder / "run" / "job.yaml").strategy.devices.front(), "cuda:99"));
}

INSTANTIATE_TEST_SUITE_P(
    Strategies, ClusterEquality,
    testing::Values(Case{"SyncPs", {"strategy.name=sync_ps", "strategy.workers=2"}, 1, 2},
                    Case{"SyncPsThreeWorkersTwoServers",
                         {"strategy.name=sync_ps", "strategy.workers=3", "strategy.placement=partitioned"},
                         2,
                         3},
                    Case{"Averaging",
                         {"strategy.name=parameter_averaging", "strategy.workers=2",
                          "strategy.average_every=1"},
                         1,
                         2},
                    Case{"Downpour", {"strategy.name=downpour", "strategy.workers=1"}, 2, 1},
                    Case{"AsyncLocalSgd",
                         {"strategy.name=async_local_sgd", "strategy.workers=1", "strategy.average_every=1"},
                         1,
                         1},
                    Case{"AsyncSgd", {"strategy.name=async_sgd", "strategy.workers=1"}, 1, 1}),
    [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace telar
