#include "telar/train/job_report.h"

#include <gtest/gtest.h>

#include "io/temp_folder.h"
#include "support/pictures.h"
#include "support/sentences.h"
#include "telar/train/job_reader.h"

namespace telar {
namespace {

using test::says;

std::string report(const std::string& job, std::string* warnings = nullptr) {
  return job_report(parse_job(job, "job.yaml"), [&](const std::string& text) {
    if (warnings != nullptr) *warnings += text + "\n";
  });
}

TEST(JobReport, CountsSamplesAndMemory) {
  const std::string text =
      report("model: mlp\ndata: {source: synthetic, shape: [8], classes: 4, samples: 50, test_samples: 7}\n");
  EXPECT_TRUE(
      says(text, "samples: 45 for training, 5 for validation, 7 for the test; each f32 [8], 4 classes\n"));
  EXPECT_TRUE(says(text, "memory: "));
  EXPECT_TRUE(says(text, " may be used here\n"));
}

TEST(JobReport, CountsWhatAnImageFolderIgnoresAndLeavesOut) {
  const test::TempFolder folder;
  const std::vector<uint8_t> png = test::png_of({4, 4, 3, Bytes(48)});
  for (const char* name : {"cats/1.png", "cats/2.png", "dogs/3.png"})
    test::write_text(folder / "pictures" / name, std::string(png.begin(), png.end()));
  test::write_text(folder / "pictures" / "dogs/4.png", std::string(png.begin(), png.begin() + 50));
  test::write_text(folder / "pictures" / "dogs/5.heic", "x");
  const std::string job =
      "model: mlp\ndata: {source: images, validation: 0, mean: [0, 0, 0], std: [1, 1, 1], shape: [3, 4, 4], path: " +
      (folder / "pictures").string();
  EXPECT_TRUE(says(report(job + "}\n"), "samples: 4 for training; each f32 [3, 4, 4], 2 classes\n"));
  std::string warnings;
  const std::string text = report(job + ", on_error: skip}\n", &warnings);
  EXPECT_TRUE(says(text, "samples: 3 for training; each f32 [3, 4, 4], 2 classes; 1 are left out"));
  EXPECT_TRUE(says(text, "ignored in " + (folder / "pictures").string() + ": 1 .heic; images are"));
  EXPECT_TRUE(says(warnings, "left out of the training samples: "));
  EXPECT_TRUE(says(warnings, "4.png"));
}

TEST(JobReport, SaysThatAPublishedSetIsNotHere) {
  EXPECT_TRUE(says(report("model: mlp\ndata: {source: mnist, path: /nowhere}\n"),
                   "samples: not counted, because /nowhere is not on this machine\n"));
}

TEST(JobReport, SaysThatADeviceIsNotHere) {
  std::string warnings;
  report("model: mlp\ndata: {source: synthetic, shape: [8]}\ndevice: cpu:1023\n", &warnings);
  EXPECT_TRUE(says(warnings, "this machine cannot train the job: strategy.devices: there is no core 1023"));
}

/// 400 rows; without a set for validation, all are for training.
std::string normalised_job(const std::string& rest, int samples = 400) {
  return "model: {layers: [{type: linear, features: 8}, {type: batch_norm}, {type: relu}, {type: linear, features: 2}]}\n"
         "data: {source: synthetic, shape: [2], classes: 2, validation: 0, samples: " +
         std::to_string(samples) + "}\n" + rest;
}

TEST(JobReport, SaysOfHowManySamplesBatchNormTakesItsStatistics) {
  EXPECT_TRUE(says(report(normalised_job("training: {batch: 8}\n")), "takes its statistics of 8 samples\n"));
  EXPECT_TRUE(says(report(normalised_job("training: {batch: 32}\nstrategy: {name: pipeline}\n")),
                   "takes its statistics of 8 samples, or 4 in the last batch of an epoch\n"));
  EXPECT_TRUE(
      says(report(normalised_job("training: {batch: 32}\nstrategy: {name: mirrored, replicas: 4}\n", 402)),
           "takes its statistics of 8 samples, or 4 in the last batch of an epoch\n"));
  EXPECT_TRUE(
      says(report(normalised_job("training: {batch: 8}\nstrategy: {name: pipeline, micro_batches: 8}\n")),
           "takes its statistics of 2 samples\n"));
}

TEST(JobReport, RefusesStatisticsOfASingleSample) {
  const auto refused = [](const std::string& job) { return test::sentence_of([&] { report(job); }); };
  EXPECT_TRUE(says(refused(normalised_job("training: {batch: 1}\n")),
                   "so it needs at least 2, but a batch has 1; choose another training.batch"));
  EXPECT_TRUE(says(refused(normalised_job("training: {batch: 8}\n", 401)),
                   "so it needs at least 2, but the last batch of an epoch has 1;"));
  EXPECT_TRUE(says(
      refused(normalised_job("training: {batch: 4}\nstrategy: {name: sync_ps, workers: 4}\n")),
      "but a batch has 4, in parts of which some have 1; choose another training.batch, or fewer workers"));
  const std::string synchronised =
      "training: {batch: 4}\nstrategy: {name: mirrored, replicas: 4, batch_norm: synchronised}\n";
  EXPECT_TRUE(says(report(normalised_job(synchronised)), "takes its statistics of 4 samples\n"));
}

}  // namespace
}  // namespace telar
