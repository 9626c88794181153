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
  std::string model = "resnet34";      ///< of the zoo
  std::string data = "fashion-mnist";  ///< a data.source
  int64_t batch = 32;                  ///< samples of a step, over all replicas
  int64_t steps = 100;                 ///< one pass over so many batches; 0: `epochs`
  int64_t epochs = 0;                  ///< over all training samples
  std::vector<std::string> precisions{"f32"};
  std::vector<std::string> environments;   ///< telar/bench/environments.h
  std::vector<std::string> settings = {};  ///< further keys of the job, "model.options.stem=3x3"
  std::filesystem::path folder = {};       ///< the runs are kept there; empty: nowhere
  std::function<bool()> stop_requested;    ///< may be empty
  std::function<void(const std::string& text)>
      say;  ///< what is measured now, and how long it takes; may be empty
};

/// The job in YAML that every row trains, with that row's settings. Throws Error (user) when it is none.
std::string sweep_job_text(const TrainSweepOptions& options);

/// Trains the same job in each environment and precision, each a process of its own. Throws Error (user) for options that no row
/// could be measured with; what goes wrong in one row is that row's reason.
Result measure_training(const TrainSweepOptions& options);

/// The figures of one training: step times, phases, images per second, accuracy, memory, energy. `batch`: samples of a step.
ResultRow training_row(std::vector<std::string> setting, const TrainingRun& run, int64_t batch);

/// Adds "speed-up" to every measured row, against the first one that is, and "efficiency", against the first of the same precision: how
/// much faster for each of its threads. `threads`: of each row.
void compare_rows(std::vector<ResultRow>& rows, const std::vector<int>& threads);

}  // namespace telar::bench
