#include "telar/train/job_changes.h"

#include <gtest/gtest.h>

#include "support/sentences.h"
#include "telar/train/job_reader.h"

namespace telar {
namespace {

using test::says;

const std::string kSgdMlp =
    "model: mlp\ndata: {source: synthetic, classes: 3}\noptimizer: {name: sgd, momentum: 0.9}\n";

std::vector<std::string> texts_of(const std::vector<std::string>& overrides, OnResume rule) {
  const Job before = parse_job(kSgdMlp, "job.yaml");
  std::vector<std::string> texts;
  for (const JobChange& change :
       changes_of(job_changes(before, parse_job(kSgdMlp, "job.yaml", overrides)), rule))
    texts.push_back(change.str());
  return texts;
}

using Texts = std::vector<std::string>;

TEST(JobChanges, WhatPeopleChangeIsRecorded) {
  EXPECT_EQ(
      texts_of({"training.batch=64", "optimizer.learning_rate=0.5", "schedule=cosine",
                "training.early_stopping.patience=4", "training.epochs=50", "optimizer.momentum=0.5"},
               OnResume::recorded),
      (Texts{"optimizer.learning_rate: 0.01 → 0.5", "optimizer.momentum: 0.9 → 0.5",
             "schedule.name: constant → cosine", "schedule.minimum: not set → 0", "training.epochs: 10 → 50",
             "training.batch: 32 → 64", "training.early_stopping.patience: 0 → 4"}));
}

TEST(JobChanges, SpeedAndOutputAreFree) {
  const Texts changed = {"data.threads=2", "output.keep=5", "output.checkpoint_steps=7", "device=cpu:0"};
  EXPECT_EQ(texts_of(changed, OnResume::free).size(), 4U);
  EXPECT_TRUE(texts_of(changed, OnResume::recorded).empty());
}

TEST(JobChanges, WhatContradictsTheCheckpointIsRefusedWithTheReason) {
  for (const std::string change : {"model=lenet5", "data.classes=4", "data.validation=0.2", "training.seed=7",
                                   "optimizer.name=adam", "optimizer.momentum=0", "training.top_k=[1,2]"}) {
    EXPECT_EQ(texts_of({change}, OnResume::refused).size(), 1U) << change;
  }
  const Job before = parse_job(kSgdMlp, "job.yaml");
  for (const JobKey& key : job_keys())
    EXPECT_EQ(key.on_resume == OnResume::refused, !key.because.empty()) << key.path;
  const auto changes = job_changes(before, parse_job(kSgdMlp, "job.yaml", {"optimizer.momentum=0"}));
  EXPECT_TRUE(says(changes.at(0).because, "the checkpoint contains the state of the momentum"));
}

TEST(JobChanges, NamesOfColumnsThatARunDoesNotHaveAreNoChange) {
  const auto job = [](const std::string& rest) {
    return parse_job("model: mlp\ndata: {source: csv, path: t.csv" + rest + "}\n", "job.yaml");
  };
  const auto refused = [&](const std::string& before, const std::string& now) {
    return changes_of(job_changes(job(before), job(now)), OnResume::refused).size();
  };
  EXPECT_EQ(refused(", header: true", ", columns: [a, b], label: c"), 0U);
  EXPECT_EQ(refused(", columns: [a, b], label: c", ", columns: [b, a], label: c"), 1U);
  EXPECT_EQ(refused(", columns: [a, b], label: c", ", columns: [a, b], label: d"), 1U);
}

}  // namespace
}  // namespace telar
