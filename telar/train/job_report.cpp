#include "telar/train/job_report.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "telar/core/error.h"
#include "telar/data/pictures/image_folder.h"
#include "telar/data/source.h"
#include "telar/device/cpu/processor_support.h"
#include "telar/observe/process.h"
#include "telar/train/given_values.h"
#include "telar/train/job_devices.h"
#include "telar/train/job_memory.h"
#include "telar/train/job_session.h"
#include "telar/train/job_statistics.h"
#include "telar/train/job_stream.h"
#include "telar/train/job_workers.h"
#include "telar/train/pipeline.h"
#include "telar/train/spread_data.h"

namespace telar {

namespace {

/// What training takes on samples of a kind.
struct Needs {
  JobMemory memory;
  Program program;
  std::string weights;  ///< a line about the given ones
};

/// Throws Error (user) if the job cannot run on such samples.
Needs checked_needs(const Job& job, const SampleSpec& spec) {
  require_memory(job, spec);
  Needs needs{job_memory(job, spec), job_program(job, spec, nullptr, Costs::estimated), ""};
  if (!job.model.weights.empty())
    needs.weights = given_values(job.model.weights, parameters_of(job_model(job, spec))).notes + "\n";
  return needs;
}

/// The samples for training, if they are counted.
std::optional<int64_t> count_of(const Datasets& data) {
  return data.train == nullptr ? std::nullopt : std::optional(data.train->size());
}

std::string samples_text(const Datasets& data) {
  std::string text =
      "samples: " + (data.stream != nullptr ? data.stream->described()
                                            : fmt::format("{} for training", data.train->size()));
  if (data.validation != nullptr) text += fmt::format(", {} for validation", data.validation->size());
  if (data.test != nullptr) text += fmt::format(", {} for the test", data.test->size());
  const SampleSpec& spec = data.spec();
  text += fmt::format("; each {} {}", name_of(spec.dtype), spec.features.str());
  text += spec.classes > 0 ? fmt::format(", {} classes", spec.classes)
                           : fmt::format(", with targets {}", spec.labels.str());
  if (spec.labels_positions()) text += fmt::format(" at each position of {}", spec.labels.str());
  if (data.spread) {
    const size_t parts = data.spread->train.size();
    text += parts == 1 ? "; the part of rank 0 alone" : fmt::format("; in {} parts", parts);
  }
  if (data.left_out_count() > 0)
    text += fmt::format("; {} are left out because they cannot be read", data.left_out_count());
  return text + "\n";
}

/// "division: group (patient), fold 2 of 5"; empty for a random division without folds.
std::string division_text(const DataJob& data) {
  if (data.split == "random" && data.folds == 0) return "";
  const std::string column = data.options.text_or("split_column", "");
  std::string text = "division: " + data.split;
  if (!column.empty()) text += fmt::format(" ({})", column);
  if (data.folds > 0) text += fmt::format(", fold {} of {}", data.fold, data.folds);
  return text + "\n";
}

Datasets opened_datasets(Job& job, const std::function<void(const std::string&)>& warn,
                         const std::function<void(const std::string&)>& say, Processes* processes) {
  const SampleChecks checks{.threads = available_threads(),
                            .watch =
                                [&say](const std::string& progress) {
                                  if (say) say(progress);
                                  return true;
                                },
                            .warn = warn,
                            .decode = job.data.on_error == "skip"};
  const auto seed = static_cast<uint64_t>(job.training.seed);
  if (job.data.spread) return open_spread_datasets(job, &checks, processes).data;
  Datasets data;
  if (!trains_on_stream(job.data)) {
    data = open_datasets(job.data, seed, &checks);
    if (warn) std::ranges::for_each(data.notes, warn);
    return data;
  }
  data.stream = open_job_stream(job);
  data.test = open_test_dataset(job.data, seed, &checks);
  if (data.test != nullptr) require_alike(data.spec(), data.test->spec());
  return data;
}

std::string remark_on(const DataJob& data) {
  const SourceType& type = source_type(data.source);
  return type.remark ? type.remark(data.options) : "";
}

/// The first file or folder of the job's data that is not on this machine; empty if all are.
std::string missing_path(const DataJob& data) {
  for (const std::string& option : source_type(data.source).paths) {
    const std::string& path = data.options.text(option);
    if (!path.empty() && !std::filesystem::exists(path)) return path;
  }
  return "";
}

/// What this machine lacks to train the job; empty if it lacks nothing.
std::string missing_here(const Job& job) {
  const std::string device = missing_device(job.strategy.devices);
  if (!device.empty()) return "strategy.devices: " + device;
  if (job.training.convolution == "winograd") return cpu::winograd_missing();
  return job.training.precision == "bf16" && has_processor(job.strategy) ? cpu::bf16_missing() : "";
}

}  // namespace

std::string data_remarks(const DataJob& data, Processes* processes) {
  if (!data.spread) return remark_on(data);
  if (processes == nullptr) return remark_on(data_of_rank(data, 0));
  const std::string own = remark_on(data_of_rank(data, processes->rank()));
  return fmt::format("{}", fmt::join(processes->gather(own), ""));
}

std::string job_report(Job job, const std::function<void(const std::string&)>& warn,
                       const std::function<void(const std::string&)>& say, Processes* processes) {
  settle_workers(job, job_workers(job, nullptr));
  const auto known = spec_without_files(job.data);
  Needs needs;
  std::optional<int64_t> samples;
  std::string text;
  if (known) needs = checked_needs(job, *known);
  if (const std::string path = missing_path(job.data); known && !path.empty()) {
    text = fmt::format("samples: not counted, because {} is not on this machine\n", path);
  } else {
    const Datasets data = opened_datasets(job, warn, say, processes);
    if (!known) needs = checked_needs(job, data.spec());
    samples = count_of(data);
    text = samples_text(data) + division_text(job.data) + data.columns_text() +
           data_remarks(job.data, processes);
  }
  const std::string missing = missing_here(job);
  if (!missing.empty()) warn("this machine cannot train the job: " + missing);
  const uint64_t usable = usable_memory_bytes();
  text += needs.weights + job_statistics(job, needs.program, samples);
  text += "memory: at least " + needs.memory.str();
  if (usable > 0) text += fmt::format("; {} may be used here", bytes_text(usable));
  return text + "\n";
}

}  // namespace telar
