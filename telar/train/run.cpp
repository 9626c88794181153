#include "telar/train/run.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "telar/core/clock.h"
#include "telar/core/error.h"
#include "telar/core/median.h"
#include "telar/device/cuda.h"
#include "telar/io/atomic_file.h"
#include "telar/observe/graph_nodes.h"
#include "telar/observe/process.h"
#include "telar/train/cluster_run.h"
#include "telar/train/job_checks.h"
#include "telar/train/job_devices.h"
#include "telar/train/job_reader.h"
#include "telar/train/job_session.h"
#include "telar/train/job_workers.h"
#include "telar/train/pipeline.h"
#include "telar/train/run_observers.h"
#include "telar/train/sample_file.h"

namespace telar {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// Stores the last epoch's report for the summary.
class LastEpoch final : public TrainingObserver {
 public:
  void epoch_done(const EpochReport& report, const TrainingState& /*state*/) override { report_ = report; }
  const EpochReport& report() const { return report_; }

 private:
  EpochReport report_;
};

/// "/job:ps/task:1/device:CPU:0" for each variable on parameter servers. For a variable that is split, the
/// server of its first rows.
std::map<std::string, std::string> server_of_variables(const Program& program) {
  std::map<std::string, std::string> devices;
  if (!program.servers) return devices;
  for (size_t s = 0; s < program.servers->servers.size(); ++s) {
    for (const Piece& piece : program.servers->servers[s].pieces) {
      if (piece.begin == 0) devices[piece.variable] = fmt::format("/job:ps/task:{}/device:CPU:0", s);
    }
  }
  return devices;
}

/// The name of a device as TensorFlow writes it: "GPU:1".
std::string tensorboard_name(const std::string& device) {
  const std::optional<int> gpu = cuda_number(device_named(device).kind);
  return gpu ? fmt::format("GPU:{}", *gpu) : "CPU:0";
}

std::vector<GraphNode> nodes_of(const Program& program, const StrategyJob& strategy) {
  const std::map<std::string, std::string> servers = server_of_variables(program);
  std::vector<GraphNode> nodes;
  for (size_t w = 0; w < program.workers.size(); ++w) {
    const std::string device =
        fmt::format("/job:worker/replica:{}/device:{}", w, tensorboard_name(device_of(strategy, w)));
    const std::string prefix = program.workers.size() == 1 ? "" : fmt::format("worker{}", w);
    for (GraphNode& node : graph_nodes(program.workers[w].gradient, device, prefix, servers))
      nodes.push_back(std::move(node));
  }
  return nodes;
}

class Run {
 public:
  Run(Job job, const RunOptions& options)
      : job_(std::move(job)),
        options_(options),
        workers_(settle_workers(job_, job_workers(job_, options.processes))),
        data_(open_datasets(job_.data, static_cast<uint64_t>(job_.training.seed))) {}

  RunSummary run() {
    check_coordination();
    check_profile();
    check_devices();
    const SampleSpec& spec = data_.train->spec();
    // Before any file is written, because the job may not fit the data.
    const auto session =
        job_session(job_computed_here(), spec, options_.processes, {options_.say, options_.warn});
    Trainer trainer(*session, trainer_options());
    if (options_.profile) profile_.emplace(*options_.profile, *session, options_.processes);
    return leads() ? lead(*session, trainer) : follow(*session, trainer);
  }

 private:
  /// Workers on other hosts need servers that they can reach.
  void check_coordination() const {
    if (options_.coordinate.empty()) return;
    if (!uses_servers(job_)) {
      throw user_error("workers cannot join at {}: strategy '{}' has no parameter servers",
                       options_.coordinate, job_.strategy.name);
    }
    if (job_.strategy.server_addresses.empty()) {
      throw user_error(
          "workers join at {}, but strategy.server_addresses is empty; start `telar serve` and give its HOST:PORT",
          options_.coordinate);
    }
  }

  void check_devices() const {
    if (!options_.coordinate.empty()) return;  // they belong to workers on other hosts
    const std::string missing = missing_device(job_.strategy.devices);
    if (!missing.empty())
      throw user_error("strategy.devices: {}; telar devices lists the devices of this machine", missing);
  }

  /// The job for this process. A coordinator evaluates on the device of its first worker, or on the CPU if
  /// this machine does not have that device.
  Job job_computed_here() const {
    Job job = job_;
    if (options_.coordinate.empty()) return job;
    const std::string missing = missing_device({job.strategy.devices.front()});
    if (missing.empty()) return job;
    warn(fmt::format("{}; the coordinator evaluates samples on the CPU", missing));
    job.strategy.devices = {"cpu"};
    if (job.training.precision == "tf32") job.training.precision = "f32";
    return job;
  }

  void check_profile() const {
    if (!options_.profile || !uses_servers(job_)) return;
    throw user_error(
        "with strategy '{}' separate worker processes make the steps, and their phases are not collected; profile the job with strategy 'single', 'mirrored' or 'pipeline'",
        job_.strategy.name);
  }

  bool leads() const { return options_.processes == nullptr || options_.processes->rank() == 0; }

  RunSummary lead(Session& session, Trainer& trainer) {
    require_disk_space(session);
    RunFolder folder = options_.resume ? RunFolder::resume(job_) : RunFolder::create(job_);
    const bool resumed = options_.resume && go_on(folder, session, trainer);
    if (!resumed) begin(folder);
    if (!workers_.empty()) say(workers_);
    share(session, trainer);

    const std::unique_ptr<ClusterRun> cluster = start_cluster(folder, session, trainer);
    LogObserver log = make_log(folder, session, trainer.state(), resumed);
    CheckpointObserver checkpoints(
        folder.checkpoints(), session,
        {job_.output.checkpoint_epochs, job_.output.checkpoint_steps, job_.output.keep, cluster != nullptr},
        {{"job.yaml", job_text(job_)}, {"samples.json", to_json(data_.train->spec())}}, [&] {
          if (cluster) cluster->fetch(session);
          log.sync();
        });
    LastEpoch last;
    EnergyObserver energy;
    std::vector<TrainingObserver*> observers = {&energy, &last, &log, &checkpoints};
    std::optional<ProgressObserver> progress;
    if (options_.progress != nullptr)
      observers.insert(observers.begin(), &progress.emplace(*options_.progress, session.metric_names()));

    RunSummary summary;
    summary.outcome = trainer.fit(*data_.train, data_.validation.get(), observers, stop_requested());
    summary.checkpoint = checkpoints.save(trainer.state()).string();
    test(summary, trainer);
    if (!summary.test.empty() && !trainer.step_seconds().empty())
      log.test_done(summary.test, trainer.state());
    log.sync();
    summary.folder = folder.path().string();
    summary.train = last.report().train;
    summary.validation = last.report().validation;
    fill_in(summary, session, trainer);
    summary.joules = energy.joules();
    summary.energy_source = energy.source();
    if (profile_) write_trace(summary, folder);
    if (cluster) summary.staleness = cluster->staleness();
    write_file(folder.summary(), to_json(summary));
    return summary;
  }

  /// Null if the strategy has no parameter servers.
  std::unique_ptr<ClusterRun> start_cluster(const RunFolder& folder, const Session& session,
                                            Trainer& trainer) const {
    if (!uses_servers(job_)) return nullptr;
    auto cluster =
        std::make_unique<ClusterRun>(job_, data_.train->spec(),
                                     ClusterOptions{options_.coordinate, options_.security, options_.program,
                                                    folder.path(), options_.say, steps_of_epoch()});
    cluster->start(session);
    trainer.make_steps_with(*cluster);
    return cluster;
  }

  /// What all processes except rank 0 do: the same steps, and nothing else.
  RunSummary follow(Session& session, Trainer& trainer) const {
    share(session, trainer);
    RunSummary summary;
    summary.outcome = trainer.fit(*data_.train, data_.validation.get(), {}, stop_requested());
    test(summary, trainer);
    fill_in(summary, session, trainer);
    if (profile_) profile_->trace();
    return summary;
  }

  void write_trace(RunSummary& summary, const RunFolder& folder) const {
    const std::string& file = options_.profile->file;
    summary.trace = file.empty() ? (folder.path() / "trace.json").string() : file;
    write_file(summary.trace, profile_->trace());
  }

  void test(RunSummary& summary, const Trainer& trainer) const {
    if (summary.outcome == FitOutcome::finished && data_.test != nullptr)
      summary.test = trainer.evaluate(*data_.test);
  }

  /// Sends rank 0's state to all processes, because only rank 0 has read the checkpoint.
  void share(Session& session, Trainer& trainer) const {
    if (options_.processes == nullptr) return;
    for (const std::string& name : session.state_names()) {
      std::vector<float> values = session.read_state(name);
      options_.processes->broadcast(std::as_writable_bytes(std::span(values)));
      session.write_state(name, values);
    }
    std::string state = to_json(trainer.state());
    options_.processes->broadcast(state);
    trainer.restore(training_state_from_json(state, "the training state of rank 0"));
  }

  /// A request to stop in one process stops all of them at the same step.
  std::function<bool()> stop_requested() const {
    if (options_.processes == nullptr) return options_.stop_requested;
    return [this] { return options_.processes->any(options_.stop_requested && options_.stop_requested()); };
  }

  void say(const std::string& text) const {
    if (options_.say) options_.say(text);
  }
  void warn(const std::string& text) const {
    if (options_.warn) options_.warn(text);
  }

  /// Fails early, not after an hour, if there is no room for one checkpoint in addition to those that are
  /// kept.
  void require_disk_space(const Session& session) const {
    uint64_t checkpoint = 0;
    for (const std::string& name : session.state_names()) {
      checkpoint += sizeof(float) * static_cast<uint64_t>(session.state_shape(name).elements());
    }
    constexpr uint64_t kLogs = 1 << 20;
    const uint64_t needed =
        checkpoint * static_cast<uint64_t>(std::min<int64_t>(job_.output.keep, 2) + 1) + kLogs;
    const fs::path folder = fs::absolute(job_.output.folder.empty() ? "runs" : job_.output.folder);
    const auto free = free_disk_bytes(folder);
    if (!free || *free >= needed) return;
    throw user_error(
        "the disk of {} has {} free; this run needs {} for its checkpoints and logs; free some space, or choose another folder (--output)",
        folder.string(), bytes_text(*free), bytes_text(needed));
  }

  int64_t steps_of_epoch() const {
    return (data_.train->size() + job_.training.batch - 1) / job_.training.batch;
  }

  TrainerOptions trainer_options() const {
    const TrainingJob& training = job_.training;
    TrainerOptions options;
    options.epochs = training.epochs;
    options.batch = training.batch;
    options.evaluation_batch = training.evaluation_batch;
    options.schedule = job_schedule(job_, steps_of_epoch());
    options.seed = static_cast<uint64_t>(training.seed);
    options.shuffle = job_.data.shuffle;
    options.together = samples_together(job_, job_workers(job_, options_.processes));
    options.loader_threads = static_cast<int>(job_.data.threads);
    options.prefetch = static_cast<int>(job_.data.prefetch);
    options.early_stopping = {training.early_stopping_metric, training.early_stopping_patience};
    options.pause_steps = job_.output.checkpoint_steps;
    if (const Processes* all = options_.processes) options.part = {all->rank(), all->rank() + 1, all->size()};
    return options;
  }

  /// Begins a new run, or one that was stopped before its first checkpoint.
  void begin(const RunFolder& folder) const {
    write_file(folder.samples(), to_json(data_.train->spec()));
    write_file(folder.job(), job_text(job_));
    say(fmt::format("run folder: {}", folder.path().string()));
  }

  /// Resumes from the newest checkpoint. Returns false if there is none.
  bool go_on(const RunFolder& folder, Session& session, Trainer& trainer) const {
    if (fs::exists(folder.job())) require_same_job(folder);
    const auto found = newest_checkpoint(folder.checkpoints());
    if (!found) {
      say(fmt::format("no checkpoint in {} yet: starting from the beginning", folder.path().string()));
      fs::remove(folder.metrics());
      return false;
    }
    for (const std::string& warning : found->warnings) warn(warning);
    load_all(found->path, session);
    trainer.restore(found->state);
    discard_metrics_after(folder.metrics(), found->state.step);
    write_file(folder.job(), job_text(job_));
    say(fmt::format("resuming {} after step {} (epoch {}, step {} of it)", folder.path().string(),
                    found->state.step, found->state.epoch + 1, found->state.step_in_epoch));
    return true;
  }

  void require_same_job(const RunFolder& folder) const {
    const std::vector<std::string> differences = job_differences(read_job(folder.job()), job_);
    if (differences.empty()) return;
    throw user_error(
        "{} is a run of another job: {}; start a new run (without --resume, another --output), or use the job of that run: telar train {} --resume",
        folder.path().string(), fmt::join(differences, "; "), folder.path().string());
  }

  LogObserver make_log(const RunFolder& folder, const Session& session, const TrainingState& state,
                       bool resumed) const {
    std::unique_ptr<TensorBoardWriter> tensorboard;
    if (job_.output.tensorboard) {
      tensorboard = std::make_unique<TensorBoardWriter>(folder.path());
      if (resumed) tensorboard->add_resume(state.step);
      tensorboard->add_graph(nodes_of(session.program(), job_.strategy));
      tensorboard->flush();
    }
    return {MetricsLog(folder.metrics()), std::move(tensorboard), session.metric_names(),
            job_.output.log_steps};
  }

  /// Waits for all processes.
  uint64_t peak_memory_of_all() const {
    const uint64_t mine = peak_memory_bytes();
    if (options_.processes == nullptr) return mine;
    uint64_t sum = 0;
    for (const std::string& text : options_.processes->gather(std::to_string(mine))) sum += std::stoull(text);
    return sum;
  }

  /// Waits for all processes.
  void fill_in(RunSummary& summary, const Session& session, const Trainer& trainer) const {
    const std::vector<float>& steps = trainer.step_seconds();
    double total = 0;
    for (const float seconds : steps) total += seconds;
    const auto average_batch = static_cast<double>(trainer.state().samples) /
                               static_cast<double>(std::max<int64_t>(1, trainer.state().step));
    if (total > 0) summary.images_per_second = average_batch * static_cast<double>(steps.size()) / total;
    summary.step_ms_median = steps.empty() ? 0 : 1e3 * median_of(steps);
    std::vector<CommunicationTime> communication = trainer.communication();
    if (options_.processes != nullptr) compare_over(*options_.processes, communication);
    // The host does not wait for NCCL, so it cannot measure the time that NCCL takes.
    const bool seen = !uses_servers(job_) && !session.exchanges_by_nccl();
    if (seen && job_workers(job_, options_.processes) > 1)
      summary.communication = parts_of(communication, total);
    if (profile_) summary.phases = profile_->phases(trainer.phases(), trainer.communication(), communication);
    summary.wall_seconds = seconds_since(start_);
    summary.metrics = session.metric_names();
    summary.seconds = trainer.state().seconds;
    summary.epochs = trainer.state().epoch;
    summary.steps = trainer.state().step;
    summary.stopped_early = trainer.state().stopped_early;
    summary.strategy = session.strategy();
    summary.replicas = uses_servers(job_) ? static_cast<int>(job_.strategy.workers) : session.replicas();
    summary.bubble = session.bubble();
    summary.mixed_speed = session.mixed_speed();
    summary.nccl = session.exchanges_by_nccl();
    summary.devices = session.device_names();
    summary.peak_memory_bytes = peak_memory_of_all();
    summary.parameter_bytes = session.memory().parameter_bytes;
    summary.activation_bytes = session.memory().activation_bytes;
    summary.seed = job_.training.seed;
  }

  Clock::time_point start_ = Clock::now();
  Job job_;
  const RunOptions& options_;
  std::string workers_;  ///< description of the settings that depend on their number
  Datasets data_;
  std::optional<RunProfile> profile_;
};

}  // namespace

RunSummary run_job(Job job, const RunOptions& options) { return Run(std::move(job), options).run(); }

void check_runs(Job job) {
  settle_workers(job, job_workers(job, nullptr));
  const auto known = spec_without_files(job.data);
  const SampleSpec spec =
      known ? *known : open_datasets(job.data, static_cast<uint64_t>(job.training.seed)).train->spec();
  job_program(job, spec, nullptr, Costs::estimated);
}

}  // namespace telar
