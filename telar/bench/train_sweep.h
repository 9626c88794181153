#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "telar/bench/result.h"
#include "telar/bench/training_run.h"

namespace telar::bench {

struct TrainSweepOptions {
  std::string program;                 ///< the command line `telar`
  std::string model = "resnet34";      ///< a model from the zoo
  std::string data = "fashion-mnist";  ///< a value of data.source
  int64_t batch = 32;                  ///< samples in a step, over all replicas
  int64_t steps = 100;                 ///< one pass over this many batches; 0: use `epochs`
  int64_t epochs = 0;                  ///< passes over all training samples
  std::vector<std::string> precisions{"f32"};
  std::vector<std::string> environments;   ///< telar/bench/environments.h
  std::vector<std::string> settings = {};  ///< other keys of the job, "model.options.stem=3x3"
  std::filesystem::path folder = {};       ///< for the run folders; empty: they are deleted
  std::function<bool()> stop_requested;    ///< may be empty
  std::function<void(const std::string& text)>
      say;  ///< receives what is measured now and how long it takes; may be empty
};

/// The YAML of the job that every row trains, with the row's own settings. Throws Error (user) if the options
/// do not form a valid job.
std::string sweep_job_text(const TrainSweepOptions& options);

/// Trains the same job in each environment and precision, each in its own process. Throws Error (user) for
/// options that are invalid for every row. The error of a single row becomes the reason in that row.
Result measure_training(const TrainSweepOptions& options);

/// The figures of one training: step times, phases, images per second, accuracy, memory, energy. `batch`:
/// samples in a step.
ResultRow training_row(std::vector<std::string> setting, const TrainingRun& run, int64_t batch);

/// Adds "speed-up" and "efficiency" to every measured row. Speed-up is relative to the first measured row.
/// Efficiency is the speed-up per thread relative to the first row with the same precision. `threads`: the
/// number for each row.
void compare_rows(std::vector<ResultRow>& rows, const std::vector<int>& threads);

}  // namespace telar::bench
