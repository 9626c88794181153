// Jobs whose model is a file.
#include "telar/io/model_file.h"

#include <gtest/gtest.h>

#include <numeric>

#include "io/temp_folder.h"
#include "support/make_session.h"
#include "support/paths.h"
#include "support/sanitizers.h"
#include "support/sentences.h"
#include "telar/io/safetensors.h"
#include "telar/train/job_changes.h"
#include "telar/train/job_model.h"
#include "telar/train/job_model_file.h"
#include "telar/train/job_reader.h"
#include "telar/train/job_session.h"
#include "telar/train/pipeline.h"
#include "telar/train/run.h"
#include "telar/train/trained.h"

namespace telar {
namespace {

namespace fs = std::filesystem;

constexpr int kComparedSteps = test::kSanitized ? 4 : 20;

using test::expect_error;

const std::string kLayers =
    "model:\n"
    "  layers:\n"
    "    - {type: conv2d, channels: 4, kernel: 3, padding: 1}\n"
    "    - {type: batch_norm}\n"
    "    - {type: relu}\n"
    "    - {type: dropout, rate: 0.25}\n"
    "    - {type: flatten}\n"
    "    - {type: linear, features: 24}\n"
    "    - {type: relu}\n"
    "    - {type: linear, features: 3}\n";
const std::string kImages =
    "data: {source: synthetic, samples: 90, test_samples: 20, shape: [1, 8, 8], classes: 3}\n"
    "training: {epochs: 2, batch: 16, seed: 4}\n"
    "output: {tensorboard: false}\n";

Job image_job(const std::string& model, std::vector<std::string> overrides = {}) {
  overrides.emplace_back("strategy.threads=1");
  return parse_job(model + kImages, "job.yaml", overrides);
}

/// Writes the model of a job, as it starts.
void write_model_of(const Job& job, const fs::path& path) {
  const SampleSpec spec = *spec_without_files(job.data);
  OutputFile file(path, OutputFile::Mode::truncate);
  const Model model = job_model(job, spec);
  write_model_file(file, model.name, graphs_of(model, job_step_options(job, spec)),
                   initial_values(static_cast<uint64_t>(job.training.seed)));
}

class ModelFileJob : public testing::Test {
 protected:
  ModelFileJob() { write_model_of(image_job(kLayers), file()); }
  std::string file() const { return (folder_ / "m.telar").string(); }
  std::string model() const { return "model: {file: " + file() + "}\n"; }

  const test::TempFolder folder_;
};

TEST_F(ModelFileJob, TrainsAsTheModelThatWasWrittenUnderEveryStrategy) {
  const SampleSpec spec = *spec_without_files(image_job(model()).data);
  const test::Samples samples(kComparedSteps * 16, spec.features, spec.classes);
  for (const char* strategy :
       {"single", "{name: mirrored, replicas: 3}", "{name: mirrored, replicas: 2, batch_norm: synchronised}",
        "{name: pipeline, stages: 2}", "{name: tensor, ways: 2, split: ['*=columns']}",
        "{name: sharded, replicas: 2, stage: 3}"}) {
    SCOPED_TRACE(strategy);
    const std::string choice = std::string("strategy=") + strategy;
    const auto from_file = job_session(image_job(model(), {choice}), spec, nullptr);
    const auto from_layers = job_session(image_job(kLayers, {choice}), spec, nullptr);
    for (int step = 0; step < kComparedSteps; ++step) {
      const int64_t last = 16 * step + (step == kComparedSteps - 1 ? 5 : 16);  // the last batch is smaller
      const StepInputs inputs{.learning_rate = 0.01F, .step = step + 1};
      const StepResult of_file = from_file->train(samples.view(16 * step, last), inputs);
      EXPECT_EQ(of_file.metrics, from_layers->train(samples.view(16 * step, last), inputs).metrics) << step;
    }
    EXPECT_EQ(test::all_state(*from_file), test::all_state(*from_layers));
    EXPECT_EQ(from_file->evaluate(samples.view(0, 7)), from_layers->evaluate(samples.view(0, 7)));
    EXPECT_EQ(from_file->predict(samples.view(0, 7)), from_layers->predict(samples.view(0, 7)));
  }
}

/// tests/fixtures/models/make_model_file.py wrote the file, and PyTorch's numbers in f64.
TEST(ModelFileOfAnotherProgram, TrainsAsPyTorchDoes) {
  const std::string folder = test::fixtures() + "/models/from_torch";
  const SafetensorsFile right(folder + ".safetensors");
  const std::vector<float> x = right.read("x").data;
  const std::vector<float> classes = right.read("label").data;
  const std::vector<int32_t> labels(classes.begin(), classes.end());
  const std::vector<float> losses = right.read("loss").data;
  std::vector<int64_t> ids(labels.size());
  std::iota(ids.begin(), ids.end(), 0);
  const size_t batch = labels.size() / losses.size();
  const size_t features = x.size() / labels.size();
  StepOptions options;
  options.batch = static_cast<int64_t>(batch);
  options.optimizer = SgdOptions{.momentum = 0.9};
  const Model model = read_model_file(folder + ".telar").model;
  const auto session = test::make_session(model, options, {});
  for (size_t step = 0; step < losses.size(); ++step) {
    const BatchView view{static_cast<int64_t>(batch),
                         {{"x", x.data() + step * batch * features}, {"label", labels.data() + step * batch}},
                         ids.data() + step * batch};
    const StepResult result =
        session->train(view, {.learning_rate = 0.2F, .step = static_cast<int64_t>(step) + 1});
    EXPECT_NEAR(result.metrics[0], losses[step], (step == 0 ? 1e-5 : 1e-3) * losses[step]) << step;
  }
  EXPECT_LT(losses.back(), 0.8F * losses.front()) << "the comparison says little if nothing is learned";
  for (const StateName& name : session->state_names()) {
    if (!name.is_parameter()) continue;
    EXPECT_LT(test::relative_l2(session->read_state(name), right.read("end/" + name.text()).data), 1e-3)
        << name.text();
  }
}

Job in_folder(Job job, const fs::path& folder) {
  job.output.folder = folder.string();
  return job;
}

TEST_F(ModelFileJob, IsResumedEvaluatedAndMoved) {
  const Job job = image_job(model());
  const RunSummary whole = run_job(in_folder(job, folder_ / "whole"), {});
  RunOptions stopping;
  stopping.stop_requested = [left = 4]() mutable { return --left <= 0; };
  EXPECT_EQ(run_job(in_folder(job, folder_ / "parts"), stopping).outcome, FitOutcome::stopped);

  // Another place of the same file.
  fs::rename(file(), folder_ / "other.telar");
  const Job moved = image_job("model: {file: " + (folder_ / "other.telar").string() + "}\n");
  RunOptions resuming;
  resuming.resume = true;
  const RunSummary resumed = run_job(in_folder(moved, folder_ / "parts"), resuming);
  EXPECT_EQ(resumed.outcome, FitOutcome::finished);
  EXPECT_EQ(test::read_text(fs::path(resumed.checkpoint) / "model.safetensors"),
            test::read_text(fs::path(whole.checkpoint) / "model.safetensors"));
  const Trained trained = load_trained(folder_ / "parts", false);
  EXPECT_EQ(evaluate(trained, *open_test_dataset(trained.job.data, 4)), whole.test);

  // A file that has changed, though its tensors have the same shapes.
  write_model_of(image_job(kLayers, {"training.seed=5"}), folder_ / "other.telar");
  expect_error([&] { run_job(in_folder(moved, folder_ / "parts"), resuming); }, {"the models differ"});
  expect_error([&] { load_trained(folder_ / "parts", false); },
               {"other.telar", "its checksum is", "has changed"});
}

TEST_F(ModelFileJob, WhatDoesNotFitIsRefusedWithTheLine) {
  const auto refused = [&](std::vector<std::string> overrides, const std::vector<std::string_view>& words) {
    const Job job = image_job(model(), std::move(overrides));
    expect_error([&] { job_model(job, *spec_without_files(job.data)); }, words);
  };
  refused({"data.shape=[1, 9, 8]"},
          {"job.yaml:1", "takes 'x' of f32 [1, 8, 8] for each sample, but the data have f32 [1, 9, 8]"});
  refused({"data.classes=4"}, {"m.telar: cross_entropy knows 3 classes, but the data have 4"});
  refused({"data.classes=2"}, {"m.telar predicts [", "3] for a batch of", "but the data require"});
  refused({"model.file=nowhere.telar"}, {"cannot open nowhere.telar"});
  expect_error([&] { image_job(model(), {"loss=cross_entropy"}); },
               {"loss.name is given, but the model is a file"});
  expect_error([&] { image_job(model(), {"training.label_smoothing=0.1"}); },
               {"training.label_smoothing is given"});
  expect_error([&] { image_job("model: {file: a, name: mlp}\n"); },
               {"either a 'name', 'layers' or a 'file'"});
  expect_error([&] { image_job("model: {file: a, options: {}}\n"); }, {"'options' are only valid"});
  expect_error([&] { image_job("model: {name: mlp, checksum: a}\n"); }, {"'checksum' is only valid"});
}

}  // namespace
}  // namespace telar
