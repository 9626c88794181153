#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "telar/comm/network.h"
#include "telar/comm/processes.h"
#include "telar/observe/progress.h"
#include "telar/train/job.h"
#include "telar/train/run_folder.h"
#include "telar/train/run_profile.h"
#include "telar/train/trainer.h"

namespace telar {

/// What a run came to.
struct RunSummary {
  FitOutcome outcome = FitOutcome::finished;
  std::string folder;
  std::string checkpoint;  ///< the last one
  std::vector<std::string> metrics;
  std::vector<double> train;  ///< means of the last whole epoch of this process; empty without one
  std::vector<double> validation;
  std::vector<double> test;      ///< empty without test samples, or when stopped
  double images_per_second = 0;  ///< of the training steps of this process, with the wait for data
  double step_ms_median = 0;
  /// Parts of the time of the training steps of this process, 0.03 for 3 %; empty for a worker alone, and
  /// over NCCL.
  std::optional<CommunicationTime> communication;
  std::optional<PhaseSummary>
      phases;         ///< of the training steps, mean of all processes; when it was asked for
  std::string trace;  ///< the file of operations; empty when it was not asked for
  std::optional<double>
      joules;  ///< of the whole machine in the training steps of this process; none where not measured
  std::string energy_source;  ///< empty when it was not measured
  double seconds = 0;         ///< in training steps, over all processes of the run
  double wall_seconds = 0;    ///< of this process: opening data, compiling, validation and test too
  int64_t epochs = 0;         ///< done
  int64_t steps = 0;          ///< done
  bool stopped_early = false;
  std::string strategy;
  int replicas = 1;
  std::optional<Bubble> bubble;           ///< of a pipeline
  std::optional<MixedSpeed> mixed_speed;  ///< of processors and GPUs that train together
  bool nccl = false;                      ///< gradients go from GPU to GPU
  std::vector<std::string> devices;
  uint64_t peak_memory_bytes =
      0;  ///< of all processes that train together, each with what it shares with others
  uint64_t parameter_bytes = 0;
  uint64_t activation_bytes = 0;
  int64_t seed = 0;
  double staleness =
      0;  ///< with parameter servers: mean updates by others between a worker's pull and its push
};

/// As JSON: "test_accuracy", "train_loss", "images_per_second" … null where there is no value.
std::string to_json(const RunSummary& summary);

struct RunOptions {
  bool resume = false;
  std::function<bool()> stop_requested;          ///< asked after each step; empty: never
  std::function<void(const std::string&)> say;   ///< told what a user wants to know; may be empty
  std::function<void(const std::string&)> warn;  ///< told what looks wrong; may be empty
  Progress* progress = nullptr;
  Processes* processes =
      nullptr;  ///< that train together; null: this one is alone. Only rank 0 writes, and tells what happens
  std::optional<ProfileOptions> profile;  ///< not with parameter servers
  // Of jobs with parameter servers:
  std::string
      program;  ///< the command line `telar`, of which servers and workers are started on this machine
  std::string
      coordinate;  ///< HOST:PORT where workers join; empty: servers and workers are started on this machine
  Security security;  ///< of servers and workers on other hosts
};

/// Opens the data, makes or resumes the run folder, trains with checkpoints and logs, and tests. A run that is stopped saves a
/// checkpoint. Throws Error.
RunSummary run_job(Job job, const RunOptions& options);

/// What can be known without running: the job's model is built for its data (for published data sets without opening
/// them), the strategy applied. Throws Error (user).
void check_runs(Job job);

}  // namespace telar
