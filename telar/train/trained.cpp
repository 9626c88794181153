#include "telar/train/trained.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <utility>

#include "telar/core/error.h"
#include "telar/data/assignment.h"
#include "telar/data/dataset_batches.h"
#include "telar/data/loader.h"
#include "telar/data/part_of.h"
#include "telar/train/batch_view.h"
#include "telar/train/checkpoint.h"
#include "telar/train/job_devices.h"
#include "telar/train/job_loader.h"
#include "telar/train/job_memory.h"
#include "telar/train/job_reader.h"
#include "telar/train/job_session.h"
#include "telar/train/job_strategy.h"
#include "telar/train/run_folder.h"
#include "telar/train/sample_file.h"

namespace telar {

namespace {

bool names_devices(const std::string& override) {
  return override.starts_with("device") || override.starts_with("strategy.device");
}

/// The job as run, moved to devices that this machine has.
Job job_to_compute(const std::filesystem::path& file, std::vector<std::string> overrides,
                   const std::function<void(const std::string&)>& warn) {
  const Job as_run = read_job(file);
  if (std::none_of(overrides.begin(), overrides.end(), names_devices)) {
    std::vector<std::string> devices = as_run.strategy.devices;
    if (uses_servers(as_run)) devices.resize(1);  // the others belong to other workers
    const std::string missing = missing_device(devices);
    if (!missing.empty()) {
      overrides.emplace_back("strategy.devices=cpu");
      if (warn) {
        warn(fmt::format(
            "the model was trained on {}; {}; it runs on the CPU (--set device=NAME selects another device)",
            fmt::join(as_run.strategy.devices, ", "), missing));
      }
    }
  }
  if (as_run.training.precision == "tf32") {
    std::vector<std::string> in_f32 = {"training.precision=f32"};
    in_f32.insert(in_f32.end(), overrides.begin(), overrides.end());
    if (has_processor(read_job(file, in_f32).strategy)) overrides = std::move(in_f32);
  }
  Job job = read_job(file, overrides);
  job.strategy.gpu_exchange = "host";  // no gradients are exchanged, so NCCL is not needed
  return job;
}

void softmax_in_place(std::span<float> row) {
  const float largest = *std::max_element(row.begin(), row.end());
  float sum = 0;
  for (float& value : row) sum += value = std::exp(value - largest);
  for (float& value : row) value /= sum;
}

}  // namespace

void require_fit(const Trained& trained, const SampleSpec& given) {
  const SampleSpec& right = trained.spec;
  if (given.features == right.features && given.dtype == right.dtype) return;
  throw user_error("the samples are {} {}, but the model in {} was trained on {} {}", name_of(given.dtype),
                   given.features.str(), trained.checkpoint.string(), name_of(right.dtype),
                   right.features.str());
}

DatasetPtr with_classes_of(const Trained& trained, DatasetPtr data,
                           const std::function<void(const std::string&)>& warn) {
  const std::vector<std::string>& given = data->spec().class_names;
  const std::vector<std::string>& known = trained.spec.class_names;
  if (given.empty() || given == known) return data;
  if (known.empty()) {
    if (warn)
      warn(fmt::format("the model in {} has no names of its classes, so these are its classes 0 … {}: {}",
                       trained.checkpoint.string(), given.size() - 1, fmt::join(given, ", ")));
    return data;
  }
  for (const std::string& name : given) {
    if (std::ranges::find(known, name) == known.end())
      throw user_error("the samples have the classes {}, but the model in {} knows no {}; it knows {}",
                       fmt::join(given, ", "), trained.checkpoint.string(), name, fmt::join(known, ", "));
  }
  return with_classes(std::move(data), known);
}

Trained load_trained(const std::filesystem::path& run_or_checkpoint, bool best,
                     const std::vector<std::string>& overrides,
                     const std::function<void(const std::string&)>& warn) {
  Trained trained;
  const FoundCheckpoint found = find_trained(run_or_checkpoint, best);
  trained.checkpoint = found.path;
  trained.step = found.state.step;
  trained.skipped = found.warnings;
  if (warn) std::for_each(found.warnings.begin(), found.warnings.end(), warn);
  trained.job = job_to_compute(trained.checkpoint / "job.yaml", overrides, warn);
  const auto samples = trained.checkpoint / "samples.json";
  trained.spec = sample_spec_from_json(read_checkpoint_text(samples), samples.string());
  require_memory_of_state(trained.job, trained.spec);
  trained.session = job_session(trained.job, trained.spec, nullptr, {.say = {}, .warn = warn});
  load_parameters(trained.checkpoint, *trained.session);
  return trained;
}

Figures Trained::figures() const { return job_figures(job, spec, *session); }

std::vector<double> evaluate(const Trained& trained, const Dataset& data) {
  require_fit(trained, data.spec());
  if (data.spec().classes != trained.spec.classes || data.spec().labels != trained.spec.labels) {
    throw user_error("the labels have {} classes (0: numbers), but the model in {} was trained on {}",
                     data.spec().classes, trained.checkpoint.string(), trained.spec.classes);
  }
  TrainerOptions options;
  options.figures = trained.figures();
  options.evaluation_batch = trained.job.training.evaluation_batch;
  options.loader_threads = loader_threads(trained.job, nullptr);
  options.prefetch = static_cast<int>(trained.job.data.prefetch);
  return Trainer(*trained.session, options).evaluate(data);
}

std::vector<float> predict(const Trained& trained, const Batch& batch) {
  std::vector<float> outputs = trained.session->predict(view_of(batch));
  if (trained.spec.classes == 0) {
    if (takes_probabilities(job_step_options(trained.job, trained.spec).loss))
      for (float& output : outputs) output = 1 / (1 + std::exp(-output));
    return outputs;
  }
  const auto width = static_cast<size_t>(trained.spec.classes);
  for (size_t row = 0; row < outputs.size(); row += width)
    softmax_in_place(std::span(outputs).subspan(row, width));
  return outputs;
}

std::vector<float> predict(const Trained& trained, const Dataset& data) {
  require_fit(trained, data.spec());
  const WholeBatch assignment(data.size(), trained.job.training.evaluation_batch);
  const DatasetBatches batches(data, assignment);
  Loader loader(batches, {.threads = loader_threads(trained.job, nullptr)});
  loader.start(batches.begin(0));
  std::vector<float> outputs;
  while (const Batch* batch = loader.next()) {
    const std::vector<float> part = predict(trained, *batch);
    outputs.insert(outputs.end(), part.begin(), part.end());
  }
  return outputs;
}

}  // namespace telar
