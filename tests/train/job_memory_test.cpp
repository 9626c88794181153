#include "telar/train/job_memory.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/sentences.h"
#include "telar/train/job_reader.h"
#include "telar/train/pipeline.h"
#include "telar/train/run.h"

namespace telar {
namespace {

using test::expect_error;

Job synthetic_job(const std::string& rest) {
  return parse_job("data: {source: synthetic, shape: [8], classes: 4, validation: 0}\n" + rest, "job.yaml");
}

Job token_job(const std::string& width) {
  return parse_job(
      "data: {source: synthetic, shape: [4], classes: 4, vocabulary: 64}\n"
      "model:\n  layers:\n    - {name: words, type: embedding, vocabulary: 1073741824, width: " +
          width + "}\n    - {type: flatten}\n    - {name: fc, type: linear, features: 4}\n",
      "job.yaml");
}

JobMemory memory_of(const Job& job, int processes = 1) {
  return job_memory(job, *spec_without_files(job.data), processes);
}

TEST(JobMemory, CountsWeightsGradientsAndOptimizerState) {
  const std::string model = "model: {name: mlp, options: {hidden: [16]}}\n";
  const int64_t weights = 4 * (8 * 16 + 16 + 16 * 4 + 4);
  EXPECT_EQ(memory_of(synthetic_job(model + "optimizer: sgd\n")).state, 2 * weights);
  EXPECT_EQ(memory_of(synthetic_job(model + "optimizer: {name: sgd, momentum: 0.9}\n")).state, 3 * weights);
  EXPECT_EQ(memory_of(synthetic_job(model + "optimizer: adam\n")).state, 4 * weights);
}

TEST(JobMemory, GrowsWithTheBatch) {
  const std::string job = "model: mlp\ntraining: {batch: ";
  const JobMemory one = memory_of(synthetic_job(job + "1}\n"));
  const JobMemory hundred = memory_of(synthetic_job(job + "100}\n"));
  EXPECT_EQ(hundred.batches, 100 * one.batches);
  EXPECT_GT(hundred.results, one.results);
  EXPECT_EQ(hundred.state, one.state);
}

TEST(JobMemory, ExpectsOnlyTheStateOfAProcessThatComputesPartOfABatch) {
  const Job job = synthetic_job("model: mlp\n");
  EXPECT_GT(memory_of(job).least, memory_of(job).state);
  EXPECT_EQ(memory_of(job, 2).least, memory_of(job, 2).state);
}

TEST(JobMemory, RefusesWhatTheMachineCannotHoldAndNamesTheLargestTensor) {
  const Job job = token_job("4096");
  expect_error([&] { require_memory(memory_of(job), uint64_t{1} << 40); },
               {"at least 64 TiB", "1.0 TiB may be used", "'words.weight', f32 [1073741824, 4096] (16 TiB)"});
  EXPECT_NO_THROW(require_memory(memory_of(job), uint64_t{1} << 48));
  EXPECT_NO_THROW(require_memory(memory_of(job), 0)) << "the machine's memory is not known";
  expect_error([&] { check_runs(job); }, {"at least 64 TiB"});
}

TEST(JobMemory, RefusesAJobWhoseMemoryExceedsTheLimitThatItPrints) {
  const JobMemory memory = memory_of(synthetic_job("model: mlp\ntraining: {batch: 1000}\n"));
  const auto total = static_cast<uint64_t>(memory.total());
  EXPECT_NO_THROW(require_memory(memory, total));
  expect_error([&] { require_memory(memory, total - 1); },
               {"at least", memory.str(), "may be used here", "a smaller model or training.batch"});
  const JobMemory of_two = memory_of(synthetic_job("model: mlp\ntraining: {batch: 1000}\n"), 2);
  EXPECT_NO_THROW(require_memory(of_two, total - 1)) << "a process computes less";
}

TEST(JobMemory, RefusesATensorThatNoProcessCanAddress) {
  expect_error([] { check_runs(token_job("1073741823")); },
               {"job.yaml:4: 'words.weight'", "f32 [1073741824, 1073741823]", "any process can address"});
}

TEST(JobMemory, RefusesTokensThatTheModelDoesNotKnow) {
  const auto job = [](int vocabulary) {
    return parse_job(
        fmt::format("data: {{source: synthetic, shape: [4], classes: 4, vocabulary: {}}}\n"
                    "model: {{name: lstm, options: {{vocabulary: 64, embedding: 8, hidden: 8}}}}\n",
                    vocabulary),
        "job.yaml");
  };
  EXPECT_NO_THROW(check_runs(job(64)));
  expect_error([&] { check_runs(job(65)); }, {"layer 'embedding' has 64 tokens", "the data have 65"});
}

TEST(JobMemory, RefusesSamplesThatAreTooLarge) {
  const auto job = [](const std::string& shape) {
    return parse_job("model: mlp\ndata: {source: synthetic, classes: 2, shape: " + shape + "}\n", "job.yaml");
  };
  expect_error([&] { check_runs(job("[1048576, 1048576, 1048576, 1048576]")); },
               {"job.yaml:2: data.shape", "f32 [1048576, 1048576, 1048576, 1048576]"});
  expect_error([&] { check_runs(job("[1048576, 4096]")); }, {"may be used here", "fc1.weight", "TiB"});
  expect_error([&] { run_job(job("[1048576, 4096]"), {}); }, {"may be used here", "TiB"});
}

}  // namespace
}  // namespace telar
