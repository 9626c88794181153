#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "io/temp_folder.h"
#include "mpi/started.h"
#include "support/npy_file.h"
#include "support/sentences.h"
#include "telar/core/random.h"
#include "telar/data/assignment.h"
#include "telar/data/dataset_batches.h"
#include "telar/train/job_reader.h"
#include "telar/train/job_session.h"
#include "telar/train/run.h"
#include "telar/train/spread_data.h"

namespace telar::test {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSpreadBatch = 12;
constexpr int64_t kPixels = 64;

/// The number of training samples of a process; of test samples it has a third of them.
int64_t samples_of_rank(int rank) { return 21 + 16 * rank; }

/// Samples, written as arrays.
struct SpreadArrays {
  std::vector<float> x;
  std::vector<int64_t> labels;

  SpreadArrays(int64_t count, uint64_t seed) {
    RandomSequence random(seed, 1);
    for (int64_t i = 0; i < count; ++i) {
      labels.push_back(random.below(3));
      for (int64_t p = 0; p < kPixels; ++p)
        x.push_back(random.uniform() + 0.3F * static_cast<float>(labels.back()));
    }
  }
  void append(const SpreadArrays& more) {
    x.insert(x.end(), more.x.begin(), more.x.end());
    labels.insert(labels.end(), more.labels.begin(), more.labels.end());
  }
  /// The samples `first` … `last`-1 as one shard.
  void write(const fs::path& folder, const std::string& prefix, const std::string& shard, int64_t first,
             int64_t last) const {
    write_npy(folder / fmt::format("{}x-{}.npy", prefix, shard),
              std::vector<float>(x.begin() + first * kPixels, x.begin() + last * kPixels), {1, 8, 8});
    write_npy(folder / fmt::format("{}label-{}.npy", prefix, shard),
              std::vector<int64_t>(labels.begin() + first, labels.begin() + last));
  }
};

SpreadArrays train_samples(int rank) { return {samples_of_rank(rank), static_cast<uint64_t>(rank) + 1}; }
SpreadArrays test_samples(int rank) { return {samples_of_rank(rank) / 3, static_cast<uint64_t>(rank) + 100}; }

/// The samples of a batch of all ranks, in rank order.
class BatchesOfAll : public Assignment {
 public:
  BatchesOfAll(const std::vector<int64_t>& parts, uint64_t seed) {
    for (size_t own = 0; own < parts.size(); ++own)
      slices_.emplace_back(parts, own, kSpreadBatch, seed, true);
  }
  int64_t steps(uint32_t epoch) const override { return slices_[0].steps(epoch); }
  int64_t batch_samples(uint32_t epoch, int64_t step) const override {
    return slices_[0].batch_samples(epoch, step);
  }
  std::vector<int64_t> samples(uint32_t epoch, int64_t step) const override {
    std::vector<int64_t> all;
    for (const SpreadSlice& slice : slices_) {
      const auto samples = slice.samples(epoch, step);
      all.insert(all.end(), samples.begin(), samples.end());
    }
    return all;
  }

 private:
  std::vector<SpreadSlice> slices_;
};

class LossesOfSteps : public TrainingObserver {
 public:
  void step_done(const StepReport& report, const TrainingState& /*state*/) override {
    losses.push_back(report.sums[0] / static_cast<double>(report.samples));
  }
  std::vector<double> losses;
};

/// Each process has written shards of its own into a folder of its own.
class MpiSpread : public StartedTogether {
 protected:
  void SetUp() override {
    StartedTogether::SetUp();
    if (!started_together()) return;
    if (rank() == 0) path_ = folder_.emplace().path().string();
    processes().broadcast(path_);
    const int64_t count = samples_of_rank(rank());
    const SpreadArrays train = train_samples(rank());
    train.write(own(), "", "a", 0, 9);
    train.write(own(), "", "b", 9, 10);
    train.write(own(), "", "c", 10, count);
    test_samples(rank()).write(own(), "test-", "a", 0, count / 3);
  }
  void TearDown() override {
    if (started_together()) processes().sleep_until_all_come();  // before the folder goes
  }

  static int rank() { return processes().rank(); }
  fs::path own() const { return fs::path(path_) / std::to_string(rank()); }

  /// `x`: the features below the folder; the other files are named after them.
  Job job_on(const std::string& x, const std::string& strategy, const std::string& more = "") const {
    const auto files = [&](std::string name) {
      const size_t at = name.find("x-");
      std::string labels = name;
      labels.replace(at, 1, "label");
      return std::pair(path_ + "/" + name, path_ + "/" + labels);
    };
    std::string tested = x;
    tested.insert(tested.find("x-"), "test-");
    return parse_job(
        fmt::format(
            "model: {{name: mlp, options: {{hidden: [16], dropout: 0.3}}}}\n"
            "data: {{source: npy, path: \"{}\", label_path: \"{}\", test_path: \"{}\", "
            "test_label_path: \"{}\", classes: 3, validation: 0, augment: {{padding: 1, flip: true}}{}}}\n"
            "optimizer: {{name: sgd, learning_rate: 0.02}}\n"
            "training: {{epochs: 3, batch: {}}}\n"
            "strategy: {}\n"
            "output: {{tensorboard: false}}\n",
            files(x).first, files(x).second, files(tested).first, files(tested).second, more, kSpreadBatch,
            strategy),
        "job.yaml");
  }
  Job spread_job(const std::string& run) const {
    Job job = job_on("{rank}/x-*.npy", "{name: mirrored, replicas: 1, threads: 1}", ", spread: true");
    job.output.folder = path_ + "/" + run;
    return job;
  }
  static RunOptions together() {
    RunOptions options;
    options.processes = &processes();
    return options;
  }

  std::vector<double> losses_in(const std::string& run) const {
    std::vector<double> losses;
    std::ifstream file(path_ + "/" + run + "/metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      const auto json = nlohmann::json::parse(line);
      if (json.at("kind") == "step") losses.push_back(json.at("loss").get<double>());
    }
    return losses;
  }

  std::optional<TempFolder> folder_;
  std::string path_;
};

TEST_F(MpiSpread, TrainsLikeASingleProcessWithTheSameBatches) {
  const RunSummary summary = run_job(spread_job("run"), together());
  if (rank() > 0) return;
  std::vector<int64_t> parts;
  SpreadArrays train(0, 1);
  SpreadArrays tests(0, 1);
  for (int r = 0; r < processes().size(); ++r) {
    parts.push_back(samples_of_rank(r));
    train.append(train_samples(r));
    tests.append(test_samples(r));
  }
  train.write(fs::path(path_) / "all", "", "a", 0, static_cast<int64_t>(train.labels.size()));
  tests.write(fs::path(path_) / "all", "test-", "a", 0, static_cast<int64_t>(tests.labels.size()));
  Job job = job_on("all/x-a.npy", "{name: single, threads: 1}");
  const auto seed = static_cast<uint64_t>(job.training.seed);
  const Datasets data = open_datasets(job.data, seed);
  const auto session = job_session(job, data.spec(), nullptr, {.say = {}, .warn = {}});
  Trainer trainer(*session, {.epochs = 3, .batch = kSpreadBatch, .schedule = {.base = 0.02}, .seed = seed});
  const BatchesOfAll assignment(parts, seed);
  LossesOfSteps single;
  trainer.fit(DatasetBatches(*data.train, assignment, seed), nullptr, {&single});

  const std::vector<double> losses = losses_in("run");
  ASSERT_EQ(losses.size(), single.losses.size());
  for (size_t step = 0; step < losses.size(); ++step)
    EXPECT_NEAR(losses[step], single.losses[step], 1e-6) << "step " << step;
  EXPECT_LT(losses.back(), 0.9 * losses.front()) << "nothing is learned";
  const std::vector<double> tested = trainer.evaluate(*data.test);
  ASSERT_EQ(summary.test.size(), tested.size());
  for (size_t m = 0; m < tested.size(); ++m) EXPECT_NEAR(summary.test[m], tested[m], 1e-6);
}

TEST_F(MpiSpread, AStoppedRunContinuesWithTheSameLosses) {
  run_job(spread_job("whole"), together());
  RunOptions options = together();
  options.stop_requested = [left = 3]() mutable { return --left <= 0; };
  EXPECT_EQ(run_job(spread_job("stopped"), options).outcome, FitOutcome::stopped);
  options = together();
  options.resume = true;
  EXPECT_EQ(run_job(spread_job("stopped"), options).outcome, FitOutcome::finished);
  if (rank() > 0) return;
  EXPECT_EQ(losses_in("stopped"), losses_in("whole"));
}

TEST_F(MpiSpread, AProcessOpensOnlyItsOwnFiles) {
  Job job = spread_job("none");
  const SpreadDatasets spread = open_spread_datasets(job, nullptr, &processes());
  const SpreadParts& parts = *spread.data.spread;
  const auto first = std::accumulate(parts.train.begin(), parts.train.begin() + rank(), int64_t{0});
  std::vector<std::byte> x(spread.data.spec().feature_bytes());
  int32_t label = 0;
  for (int64_t i = first; i < first + parts.train[parts.own]; ++i)
    spread.data.train->read(i, {}, x, std::as_writable_bytes(std::span(&label, 1)));
  int own_files = 0;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code closed;
    const std::string file = fs::read_symlink(entry, closed).string();
    if (closed || !file.starts_with(fs::canonical(path_).string())) continue;
    EXPECT_TRUE(file.starts_with(fs::canonical(own()).string())) << file;
    ++own_files;
  }
  EXPECT_EQ(own_files, 6) << "three shards, each with features and labels";
}

TEST_F(MpiSpread, WhatOneProcessCannotOpenEndsAllWithItsRank) {
  if (rank() == 1) fs::resize_file(own() / "x-c.npy", 200);
  expect_error([&] { run_job(spread_job("refused"), together()); },
               {"rank 1 on ", "/1/x-c.npy: its shape [", "but there are 72"});
}

}  // namespace
}  // namespace telar::test
