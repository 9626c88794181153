#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "telar/comm/linked/elastic_processes.h"
#include "telar/comm/network.h"
#include "telar/comm/processes.h"
#include "telar/nn/metrics.h"
#include "telar/observe/progress.h"
#include "telar/train/data_decision.h"
#include "telar/train/job.h"
#include "telar/train/run_folder.h"
#include "telar/train/run_losses.h"
#include "telar/train/run_profile.h"
#include "telar/train/trainer.h"
#include "telar/train/training_observer.h"

namespace telar {

/// The results of a run.
struct RunSummary {
  FitOutcome outcome = FitOutcome::finished;
  bool failed = false;  ///< only in the file of the run; of the other fields few are set
  /// The run had ended before. Of the other fields only folder, checkpoint, stopped_early and why are set.
  bool nothing_to_do = false;
  std::string why;  ///< why the training ended, as the end of a sentence
  std::string folder;
  std::string checkpoint;          ///< the last one written
  std::optional<Figures> figures;  ///< absent: stopped before its first step
  std::vector<double> train;  ///< their values of this process's last complete epoch; empty if there is none
  std::vector<double> validation;
  std::vector<double> test;  ///< empty without test samples, or if the run was stopped
  double images_per_second =
      0;  ///< rate of this process's training steps, including the wait for data; 0: none made
  double step_ms_median = 0;  ///< 0: no step made
  /// Fractions of the time of this process's training steps: 0.03 means 3 %. Empty for a single worker, and
  /// with NCCL.
  std::optional<CommunicationTime> communication;
  std::optional<PhaseSummary> phases;  ///< of the training steps, mean over all processes; if requested
  std::string trace;                   ///< the file with the trace; empty if not requested
  std::optional<double>
      joules;  ///< used by the whole machine during this process's training steps; empty if not measured
  std::string energy_source;  ///< empty if not measured
  double seconds = 0;         ///< in training steps, over all processes of the run
  double wall_seconds = 0;    ///< of this process, including opening data, compiling, validation and test
  int64_t since_step = 0;     ///< after which this process began; 0: that of a run that was not resumed
  int64_t epochs = 0;         ///< completed
  int64_t steps = 0;          ///< completed
  bool stopped_early = false;
  std::string strategy;
  int replicas = 1;
  std::optional<Bubble> bubble;           ///< pipeline only
  std::optional<MixedSpeed> mixed_speed;  ///< CPUs and GPUs that train together
  bool nccl = false;                      ///< gradients are exchanged directly between GPUs
  std::vector<std::string> devices;
  uint64_t peak_memory_bytes =
      0;  ///< sum over all processes that train together; memory they share counts in each
  uint64_t parameter_bytes = 0;  ///< of this process: parameters, gradients and optimizer state
  uint64_t gradient_bytes = 0;   ///< of these, gradients
  uint64_t optimizer_bytes = 0;  ///< and optimizer state
  uint64_t activation_bytes = 0;
  int64_t seed = 0;
  int64_t left_out_samples = 0;  ///< those that cannot be read, if data.on_error is skip
  double staleness =
      0;  ///< with parameter servers: mean number of others' updates between a worker's pull and push
  std::optional<RunLosses> losses;  ///< with parameter servers
  std::string
      not_stored;  ///< why the last checkpoint is not in output.storage; empty: it is, or none is named
  std::string after_checkpoint;  ///< why the command after the last checkpoint failed; empty: it did not
  int64_t absent = 0;  ///< processes or workers that were lost, or have not come, when the run was over
  std::optional<StreamEvaluation> evaluation;  ///< of a stream
  LatencyCounts latency;  ///< of a stream: from a message's arrival to the update that it contributed to
};

/// Why the result is not that of a whole training, or is not where it should be; empty if there is no reason.
std::string warning_of(const RunSummary& summary);

/// As JSON: "test_accuracy", "train_loss", "images_per_second" …; null for a missing value.
std::string to_json(const RunSummary& summary);

/// What a process is told that takes the place of a lost one, besides the job as it was settled.
struct ComesLater {
  int64_t processes = 0;  ///< of the group at its beginning
  int64_t rules = 0;      ///< by which samples are read (DataJob)
  DataDecision decision;
};

/// What a process does besides when rank 0 is lost and it goes on with the run as rank 0
/// (strategy.min_workers).
struct Heir {
  std::function<void(const std::string& address)> leads;  ///< called first: where others join from now on
  std::function<void(const std::string& why)> refuses;    ///< called if it cannot; the process ends then
  std::function<void(const std::string&)> say;            ///< as those of RunOptions
  std::function<void(const std::string&)> warn;
  Progress* progress = nullptr;
  std::string metrics;
};

struct RunOptions {
  bool resume = false;
  bool accept_changed_data = false;              ///< resume although the data are not those of the run
  std::function<bool()> stop_requested;          ///< called often, with parameter servers and a storage also
                                                 ///< from other threads; empty: never stop
  std::function<void(const std::string&)> say;   ///< receives progress messages; may be empty
  std::function<void(const std::string&)> warn;  ///< receives warnings; may be empty
  Progress* progress = nullptr;
  TrainingObserver* observer = nullptr;  ///< told of the training in rank 0, too; may be null
  std::string metrics;  ///< HOST:PORT where Prometheus reads the state of the training; empty: nowhere
  // What a process that comes later knows of the command, in case it becomes rank 0:
  std::string summary;  ///< the file for the result, absolute; empty: none
  bool quiet = false;
  Processes* processes =
      nullptr;  ///< those that train together; null: this one alone. Only rank 0 writes files and messages
  ElasticProcesses* elastic = nullptr;    ///< the same as `processes`, if those who are left go on
  std::optional<Heir> heir;               ///< of one of `elastic`, if it can become rank 0
  std::optional<ComesLater> comes;        ///< this process takes the place of one of `elastic`
  std::optional<ProfileOptions> profile;  ///< not available with parameter servers
  // Strategies with parameter servers only:
  std::string program;     ///< the command line `telar`, used to start local servers and workers
  std::string coordinate;  ///< HOST:PORT that workers join; empty: servers and workers are started locally
  /// HOST:PORT of each server that was started for this process only: no part of the job, whose resumption
  /// will have others. Empty: StrategyJob::server_addresses.
  std::vector<std::string> own_servers;
  std::function<void(const std::string& address)> listens;  ///< told where workers join; may be empty
  /// As ClusterOptions has it, set by run_job().
  std::function<bool(const std::filesystem::path& checkpoint)> goes_back;
  Security security;  ///< for servers and workers on other hosts
};

/// Whether this process writes the run, and reports.
inline bool leads(const RunOptions& options) {
  return options.processes == nullptr ||
         (options.processes->rank() == 0 && (options.elastic == nullptr || !options.elastic->waits()));
}

/// Opens the data, creates or resumes the run folder, trains with checkpoints and logs, and tests. A run that
/// is stopped saves a checkpoint. One of which parameter servers have lost all copies of a variable goes back
/// to its newest checkpoint, three times at most without a new one. Throws Error.
RunSummary run_job(Job job, RunOptions options);

/// Whether the run of a job needs no other process, because the last of its steps are in a checkpoint, in its
/// folder (if it is resumed) or in output.storage.
bool has_trained(const Job& job, bool resume);

/// Checks a job without running it: builds its model for its data (published data sets are not opened) and
/// applies its strategy. Throws Error (user).
void check_runs(Job job);

}  // namespace telar
