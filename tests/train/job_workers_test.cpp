#include "telar/train/job_workers.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/sentences.h"
#include "telar/nn/schedule.h"
#include "telar/train/job_changes.h"
#include "telar/train/job_reader.h"
#include "telar/train/job_session.h"

namespace telar {
namespace {

const std::string kSyntheticJob =
    "model: mlp\ndata: synthetic\noptimizer: {name: sgd, learning_rate: 0.1}\nstrategy: mirrored\n";

// 2 x 2 workers in 4 processes: then 3 x 2, two in each of 3 processes, and 1 x 2.
TEST(Workers, AnotherNumberOfProcessesHasAsManyWorkersInEachAsTheStrategyAllows) {
  const std::string text = "model: {name: mlp, options: {hidden: [16]}}\ndata: synthetic\nstrategy: ";
  const SampleSpec spec{.features = {1, 8, 8}, .dtype = DType::f32, .classes = 10};
  const auto count = [&](const std::string& strategy, const std::string& option, int64_t begun, int left) {
    const Job job = parse_job(text + strategy, "job.yaml");
    return job_for(job, spec, begun, left).strategy.options.integer(option);
  };
  const std::string hybrid = "{name: hybrid, data: 2, model: 2, split: ['*=columns']}";
  EXPECT_EQ(count(hybrid, "data", 4, 4), 2);
  EXPECT_EQ(count(hybrid, "data", 4, 3), 3);
  EXPECT_EQ(count(hybrid, "data", 4, 2), 1);
  EXPECT_EQ(count(hybrid, "data", 4, 1), 1);
  const std::string tensor = "{name: tensor, ways: 4, split: ['*=columns']}";
  EXPECT_EQ(count(tensor, "ways", 4, 3), 3);
  EXPECT_EQ(count(tensor, "ways", 2, 1), 2);
  EXPECT_EQ(count(tensor, "ways", 4, 1), 2);  // one is no division
  EXPECT_EQ(count("{name: pipeline, stages: 3}", "stages", 3, 2), 2);
  EXPECT_EQ(count("{name: pipeline, stages: 3}", "stages", 3, 1), 1);
  EXPECT_EQ(count("{name: sharded, replicas: 2}", "replicas", 3, 2), 2);  // each process has its own
}

TEST(Workers, WithoutANumberThatSuitsTheModelNobodyGoesOn) {
  const Job job = parse_job(
      "model: {name: mlp, options: {hidden: [2]}}\ndata: synthetic\n"
      "strategy: {name: hybrid, data: 2, model: 3, split: ['fc1=columns']}",
      "job.yaml");
  const SampleSpec spec{.features = {1, 8, 8}, .dtype = DType::f32, .classes = 10};
  const std::string why = test::sentence_of([&] { job_for(job, spec, 6, 3); }, Error::Kind::user);
  EXPECT_TRUE(test::says(why, "no strategy.data from 1 to 3 suits 3 processes: layer 'fc1' has 2 ")) << why;
}

TEST(Workers, ABatchPerStepDoesNotDependOnTheNumberOfWorkers) {
  for (const int64_t workers : {1, 2, 7}) {
    Job job = parse_job(kSyntheticJob + "training: {batch: 32}\n", "job.yaml");
    EXPECT_EQ(settle_workers(job, workers), "");
    EXPECT_EQ(job.training.batch, 32);
    EXPECT_EQ(job.optimizer.learning_rate, 0.1);
  }
}

TEST(Workers, ABatchPerWorkerGrowsWithTheNumberOfWorkers) {
  Job job = parse_job(kSyntheticJob + "training: {batch: 32, batch_per: worker}\n", "job.yaml");
  EXPECT_EQ(settle_workers(job, 8), "8 workers × 32 samples: a batch of 256");
  EXPECT_EQ(job.training.batch, 256);
  EXPECT_EQ(job.optimizer.learning_rate, 0.1);
}

// Goyal et al. (2017): k times the batch needs k times the rate; the warm-up starts at one worker's rate.
TEST(Workers, TheRateIsScaledLinearlyOrByTheSquareRoot) {
  for (const auto& [scale, factor] : {std::pair("linear", 8.0), {"sqrt", std::sqrt(8.0)}}) {
    Job job = parse_job(
        kSyntheticJob + "training: {batch: 32, batch_per: worker, epochs: 90}\nschedule: {scale: " + scale +
            ", warmup_epochs: 5}\n",
        "job.yaml");
    settle_workers(job, 8);
    const Schedule schedule = job_schedule(job, 100);
    EXPECT_DOUBLE_EQ(learning_rate(schedule, 1), 0.1 + 0.1 * (factor - 1) / 500) << scale;
    EXPECT_DOUBLE_EQ(learning_rate(schedule, 250), 0.1 + 0.1 * (factor - 1) / 2) << scale;
    EXPECT_DOUBLE_EQ(learning_rate(schedule, 500), 0.1 * factor) << scale;
    EXPECT_DOUBLE_EQ(learning_rate(schedule, 501), 0.1 * factor) << scale;
  }
}

TEST(Workers, OneWorkerUsesTheRateOfTheJob) {
  Job job = parse_job(
      kSyntheticJob + "training: {batch_per: worker}\nschedule: {scale: linear, warmup_rate: 0.01}\n",
      "job.yaml");
  settle_workers(job, 1);
  EXPECT_DOUBLE_EQ(job.optimizer.learning_rate, 0.1);
  EXPECT_DOUBLE_EQ(job.schedule.warmup_rate, 0.01);
}

TEST(Workers, SettledValuesReadBackAndAreNotScaledAgain) {
  Job job = parse_job(
      kSyntheticJob + "training: {batch_per: worker}\nschedule: {scale: linear, warmup_epochs: 1}\n",
      "job.yaml");
  EXPECT_EQ(settle_workers(job, 4),
            "4 workers × 32 samples: a batch of 128; learning rate 0.1 × 4 = 0.4, from 0.1 in 1 epochs");
  Job again = parse_job(job_text(job), "run/job.yaml");
  EXPECT_EQ(settle_workers(again, 2), "");
  EXPECT_TRUE(job_changes(again, job).empty());
}

TEST(Workers, ABatchThatIsTooLargeIsRefused) {
  Job job = parse_job(kSyntheticJob + "training: {batch: 16777216, batch_per: worker}\n", "job.yaml");
  test::expect_error([&] { settle_workers(job, 2); }, {"2 workers with 16777216 samples each"});
}

TEST(Workers, BadlyMixedSamplesStayTogetherInBatches) {
  const Job mixed = parse_job(kSyntheticJob + "training: {batch: 32}\n", "job.yaml");
  EXPECT_EQ(samples_together(mixed, 4), 1);
  const Job by_label =
      parse_job(kSyntheticJob + "training: {batch: 32}\n", "job.yaml", {"data.mixing=by_label"});
  EXPECT_EQ(samples_together(by_label, 4), 8);
  EXPECT_EQ(samples_together(by_label, 100), 1) << "there are more workers than samples";
  test::expect_error(
      [] {
        parse_job(kSyntheticJob, "job.yaml", {"data.mixing=by_label", "data.classes=0"});
      },
      {"data.mixing", "without classes"});
}

}  // namespace
}  // namespace telar
