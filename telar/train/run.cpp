#include "telar/train/run.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <utility>

#include "telar/comm/listening.h"
#include "telar/core/clock.h"
#include "telar/core/error.h"
#include "telar/core/memory_limit.h"
#include "telar/data/source.h"
#include "telar/io/atomic_file.h"
#include "telar/observe/process.h"
#include "telar/train/checkpoint_observer.h"
#include "telar/train/cluster_run.h"
#include "telar/train/data_record.h"
#include "telar/train/file_digest.h"
#include "telar/train/given_values.h"
#include "telar/train/held_reports.h"
#include "telar/train/job_checks.h"
#include "telar/train/job_devices.h"
#include "telar/train/job_loader.h"
#include "telar/train/job_memory.h"
#include "telar/train/job_model_file.h"
#include "telar/train/job_reader.h"
#include "telar/train/job_session.h"
#include "telar/train/job_statistics.h"
#include "telar/train/job_strategy.h"
#include "telar/train/job_stream.h"
#include "telar/train/job_workers.h"
#include "telar/train/kept_state.h"
#include "telar/train/metrics_observer.h"
#include "telar/train/pipeline.h"
#include "telar/train/resume.h"
#include "telar/train/run_data.h"
#include "telar/train/run_figures.h"
#include "telar/train/run_graph.h"
#include "telar/train/run_observers.h"
#include "telar/train/run_storage.h"
#include "telar/train/sample_file.h"
#include "telar/train/shared_task.h"
#include "telar/train/spread_data.h"
#include "telar/train/stream_observer.h"

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

/// Calls a function once: when the first step is done, so that nothing can refuse the run any more.
class FirstStep final : public TrainingObserver {
 public:
  explicit FirstStep(std::function<void()> done) : done_(std::move(done)) {}
  void step_done(const StepReport& /*report*/, const TrainingState& /*state*/) override { call(); }
  void call() {
    if (done_) std::exchange(done_, {})();
  }

 private:
  std::function<void()> done_;
};

/// Ends a run that another process stores now.
class StoresAlone final : public TrainingObserver {
 public:
  explicit StoresAlone(const RunStorage& storage) : storage_(storage) {}
  void step_done(const StepReport& /*report*/, const TrainingState& /*state*/) override {
    storage_.require_owner();
  }

 private:
  const RunStorage& storage_;
};

/// How the run goes on with other processes.
struct Recovery {
  ElasticProcesses::Changes changes;
  std::string strategy;     ///< "strategy.ways: 3", if the number of workers follows from that of processes
  int64_t steps_again = 0;  ///< back to which it goes
};

/// Where rank 0 writes a run, for a process that goes on with it.
struct RunHome {
  std::string folder;  ///< absolute
  std::string known;   ///< RunFolder::make_known
  std::string task;    ///< what newcomers are told
  std::string owner;   ///< RunStorage::owner; empty: the job names no storage
};

/// Why a run does not begin (Run::share_beginning).
const std::string kFinished = "finished";
const std::string kStopped = "stopped";

/// A run that begins or goes on in a folder.
struct BegunRun {
  std::optional<ResumePoint> resumed = std::nullopt;
  bool is_new = false;            ///< its files have been written
  ClusterRun* cluster = nullptr;  ///< null: no parameter servers
};

class Run {
 public:
  Run(Job job, const RunOptions& options)
      : job_(with_settled_model(std::move(job), options.processes)),
        options_(options),
        workers_(settle_workers(job_, workers())),
        opened_(open_run_data(job_, options)),
        begun_with_(options.comes                  ? options.comes->processes
                    : options.processes != nullptr ? options.processes->size()
                                                   : 1) {}

  RunSummary run() {
    check_coordination();
    check_profile();
    check_devices();
    check_early_stopping();
    // Before anything is started, because the address may be wrong or taken.
    if (!options_.metrics.empty() && leads())
      metrics_server_ = std::make_unique<MetricsServer>(options_.metrics);
    const SampleSpec& spec = opened_.data.spec();
    // Before any file is written, because the job may not fit the data.
    const auto session =
        job_session(job_computed_here(), spec, options_.processes, {options_.say, options_.warn});
    job_statistics(job_, session->program(),
                   opened_.data.train == nullptr ? std::nullopt : std::optional(opened_.data.train->size()));
    Trainer trainer(*session, trainer_options(*session));
    if (options_.profile) profile_.emplace(*options_.profile, *session, options_.processes);
    if (options_.elastic != nullptr && leads()) options_.elastic->admit(home_.task = task_of_newcomers());
    if (options_.heir)
      options_.elastic->when_first_is_lost(
          [&](const ElasticProcesses::Silent& silent) { take_over(trainer, silent); });
    return leads() ? lead(*session, trainer) : follow(*session, trainer);
  }

 private:
  /// Workers on other hosts need servers that they can reach. With a stream, they can be started here.
  void check_coordination() const {
    if (options_.coordinate.empty()) return;
    if (!uses_servers(job_)) {
      throw user_error("workers cannot join at {}: strategy '{}' has no parameter servers",
                       options_.coordinate, job_.strategy.name);
    }
    const Listening free(Address::parse(options_.coordinate));  // otherwise servers would belong to this run
    if (servers().empty() && !trains_on_stream(job_.data)) {
      throw user_error(
          "workers join at {}, but strategy.server_addresses is empty; start `telar serve` and give its HOST:PORT",
          options_.coordinate);
    }
  }

  const std::vector<std::string>& servers() const {
    return options_.own_servers.empty() ? job_.strategy.server_addresses : options_.own_servers;
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
    if (options_.comes) return job_computed_by(*options_.processes);
    Job job = job_;
    if (options_.coordinate.empty()) return job;
    const std::string missing = missing_device({job.strategy.devices.front()});
    if (missing.empty()) return job;
    warn(fmt::format("{}; the coordinator evaluates samples on the CPU", missing));
    job.strategy.devices = {"cpu"};
    if (job.training.precision == "tf32") job.training.precision = "f32";
    return job;
  }

  /// The same in all processes, if each has a part of the values.
  void take_given_parts(Session& session) const {
    std::string digest;
    std::string mistake;
    try {
      if (const auto taken = take_given_values(job_, opened_.data.spec(), session)) {
        const FileDigest file = digest_of(taken->file);
        digest = fmt::format("{} {}", file.bytes, file.crc32);
      }
    } catch (const Error& error) {
      mistake = error.what();
    }
    mistake = options_.processes->first_text(mistake);
    if (!mistake.empty()) throw user_error("{}", mistake);
    options_.processes->require_same(digest, "the contents of model.weights");
  }

  /// A column may name no sample for validation, which the job alone does not tell.
  void check_early_stopping() const {
    if (opened_.data.train == nullptr || opened_.data.validation != nullptr) return;
    if (job_.training.early_stopping_patience > 0)
      throw user_error(
          "training.early_stopping.patience is {}, but data.split_column names no sample for validation",
          job_.training.early_stopping_patience);
    if (job_.schedule.name == "plateau")
      throw user_error("schedule.name is plateau, but data.split_column names no sample for validation");
  }

  void check_profile() const {
    if (options_.profile && options_.elastic != nullptr)
      throw user_error(
          "a profile is of a group of processes that stays the same: leave out --profile or strategy.min_workers");
    if (!options_.profile || !uses_servers(job_)) return;
    throw user_error(
        "with strategy '{}' separate worker processes make the steps, and their phases are not collected; profile the job with strategy 'single', 'mirrored' or 'pipeline'",
        job_.strategy.name);
  }

  bool leads() const { return telar::leads(options_); }

  /// With which the run began.
  int64_t workers() const {
    return options_.comes ? job_workers(job_, static_cast<int>(options_.comes->processes))
                          : job_workers(job_, options_.processes);
  }

  std::string task_of_newcomers() const {
    return to_json(
        SharedTask{.job = job_,
                   .comes = ComesLater{options_.processes->size(), job_.data.rules, opened_.decision},
                   .metrics = options_.metrics,
                   .summary = options_.summary,
                   .quiet = options_.quiet});
  }

  RunSummary lead(Session& session, Trainer& trainer) {
    require_disk_space(session);
    if (!opened_.data.spread) opened_.record = data_record(job_.data, opened_.data);
    const bool again = options_.resume;
    const bool looked = use_storage(again, [&] {
      storage_.emplace(
          job_.output, [this](const std::string& text) { warn(text); }, stops());
      storage_->look();
      if (storage_->has_checkpoint()) storage_->require_job(job_, again);
      options_.resume |= storage_->has_checkpoint();
    });
    if (!looked) return stopped_at_beginning();
    const bool here = again || (options_.resume && !job_.output.folder.empty());
    RunFolder folder = here ? RunFolder::resume(job_) : RunFolder::create(job_);
    try {
      if (use_storage(again,
                      [&] { storage_->bring(folder, [this](const std::string& text) { say(text); }); }))
        return lead_and_record(folder, session, trainer);
      folder.discard_if_new();
      return stopped_at_beginning();
    } catch (...) {
      if (trainer.state().step == 0) folder.discard_if_new();
      throw;
    }
  }

  /// Whether the run is being stopped, here or in another process; from any thread.
  std::function<bool()> stops() const {
    return [this] { return stops_ || (options_.stop_requested && options_.stop_requested()); };
  }

  /// If the job names a storage: what fails there is a mistake of the user, but not when a run is started
  /// `again`, because that may succeed later. False: a stop came first.
  bool use_storage(bool again, const std::function<void()>& use) const {
    try {
      if (!job_.output.storage.empty()) use();
      return true;
    } catch (const Error& error) {
      if (options_.stop_requested && options_.stop_requested()) return false;
      if (again) throw;
      throw user_error("{}", error.what());
    }
  }

  /// The others wait in share().
  RunSummary stopped_at_beginning() const {
    RunSummary summary;
    summary.outcome = FitOutcome::stopped;
    share_beginning(kStopped);
    return summary;
  }

  RunSummary lead_and_record(const RunFolder& folder, Session& session, Trainer& trainer) {
    try {
      return lead_in(folder, session, trainer);
    } catch (const CopiesLost& lost) {
      warn(fmt::format("{}; the run goes back from step {} to its newest checkpoint", lost.what(),
                       trainer.state().step));
      throw;
    } catch (const std::exception& error) {
      if (trainer.times().steps() > 0) write_failure(folder, trainer, as_error(error).what());
      throw;
    }
  }

  /// The summary of a run that an error ends after some of its steps.
  void write_failure(const RunFolder& folder, const Trainer& trainer, const std::string& why) const {
    RunSummary summary;
    summary.failed = true;
    summary.why = why;
    summary.folder = folder.path().string();
    summary.strategy = job_.strategy.name;
    summary.seed = job_.training.seed;
    summary.epochs = trainer.state().epoch;
    summary.steps = trainer.state().step;
    summary.seconds = trainer.state().seconds;
    summary.since_step = since_step_;
    summary.wall_seconds = seconds_since(start_);
    summary.left_out_samples = left_out(trainer);
    try {
      write_file(folder.summary(), to_json(summary), Links::refuse);
    } catch (const Error& error) {
      warn(error.what());  // the run's own error says more
    }
  }

  RunSummary lead_in(const RunFolder& folder, Session& session, Trainer& trainer) {
    const auto resumed = options_.resume ? go_on(folder, session, trainer) : std::nullopt;
    if (options_.elastic != nullptr) {
      folder_ = &folder;
      home_.folder = fs::absolute(folder.path()).string();
    } else {
      folder.make_unknown();
    }
    if (!resumed)
      if (const auto taken = take_given_values(job_, opened_.data.spec(), session)) say(taken->notes);
    since_step_ = trainer.state().step;
    const bool finished = resumed && is_finished(folder, job_, trainer.state());
    if (!share(session, trainer, finished ? kFinished : "", resumed ? resumed->checkpoint : fs::path())
             .empty())
      return nothing_to_do(folder, trainer, *resumed);
    const bool is_new = !fs::exists(folder.job());
    if (resumed && !is_recognised(trainer.state())) return stopped_before(folder, resumed);
    if (resumed) rewind(folder, *resumed);
    if (is_new) write_files(folder);
    if (!resumed) say_begin(folder);
    if (!workers_.empty()) say(workers_);
    tell_threads(job_, options_.processes, {options_.say, options_.warn});

    const std::unique_ptr<ClusterRun> cluster = start_cluster(folder, session, trainer);
    if (uses_servers(job_) && cluster == nullptr) return stopped_before(folder, resumed);
    if (resumed)
      for (const std::string& change : resumed->changes) say("changed: " + change);
    return lead_on(folder, session, trainer, {resumed, is_new, cluster.get()});
  }

  /// Trains and writes the run, also one of which another process was rank 0 (`succession` says how it goes
  /// on).
  RunSummary lead_on(const RunFolder& folder, Session& session, Trainer& trainer, const BegunRun& run,
                     const std::optional<Recovery>& succession = {}) {
    LoggedSoFar logged{.step = trainer.state().step};
    if (succession) logged = go_on_with_metrics(folder.metrics());
    std::optional<StreamPace> pace;
    if (opened_.data.stream != nullptr)
      pace.emplace(
          [stream = opened_.data.stream](const Position& position) { return stream->behind(position); });
    LogObserver log = make_log(folder, session, logged.step, trainer.state().samples,
                               run.resumed || succession, pace ? &*pace : nullptr);
    if (succession) {
      held_.tell(log, logged);
      trainer.told(logged.step, logged.epoch);
    }
    const TrainingState begun = trainer.state();
    // The next resume starts from these files, so those of a run that is refused stay as they are.
    FirstStep accepted([&] {
      if (!run.is_new && !succession) write_files(folder);
      if (run.resumed && !run.resumed->changes.empty()) log.resumed(run.resumed->changes, begun);
    });
    std::optional<StreamObserver> stream;
    if (opened_.data.stream != nullptr)
      stream.emplace(*opened_.data.stream, checkpoint_policy(), is_audited() ? folder.offsets() : fs::path(),
                     uses_servers(job_));
    CheckpointObserver checkpoints(
        {.folder = folder.checkpoints(),
         .files = succession ? files_of(folder) : files_of_run(),
         .before =
             [&] {
               log.sync();
               if (stream) stream->sync();
             },
         .behind = !stream,  // which learns what is stored when the observer after this one is called
         .store = storing(),
         .after = job_.output.after_checkpoint,
         .warn = [this](const std::string& text) { warn(text); }},
        session, checkpoint_policy(), options_.processes);
    EnergyObserver energy;
    std::vector<TrainingObserver*> observers = {&accepted, &energy, &last_, &log, &checkpoints};
    if (stream) observers.push_back(&*stream);
    std::optional<StoresAlone> alone;
    if (storage_) observers.push_back(&alone.emplace(*storage_));
    if (options_.observer != nullptr) observers.push_back(options_.observer);
    std::optional<ProgressObserver> progress;
    if (options_.progress != nullptr)
      observers.insert(observers.begin(),
                       &progress.emplace(*options_.progress, trainer.figures(), pace ? &*pace : nullptr,
                                         [&] { return stream_text(stream, run.cluster); }));
    if (pace) observers.insert(observers.begin(), &*pace);

    std::optional<MetricsObserver> metrics;
    if (metrics_server_)
      observers.push_back(
          &metrics.emplace(std::move(metrics_server_),
                           metrics_sources(session, trainer, pace ? &*pace : nullptr, run.cluster)));
    if (metrics) say(fmt::format("metrics: http://{}/metrics", metrics->address()));

    RunSummary summary;
    const auto train = [&] {
      summary.outcome = fit(session, trainer, observers);
      accepted.call();
      summary.checkpoint = checkpoints.save(trainer.state()).string();
      if (stream) stream->stored();
      test(summary, session, trainer);
      fill_in(summary, session, trainer);
      // A run of a stream that found no message is no new test.
      if (!summary.test.empty() && !std::exchange(logged.test, true) &&
          (!stream || trainer.times().steps() > 0))
        log.test_done(summary.test, trainer.state());
      log.sync();
      summary.folder = folder.path().string();
      summary.train = last_.report().train;
      summary.validation = last_.report().validation;
      if (stream) summary.latency = stream->latency();
      summary.joules = energy.joules();
      summary.energy_source = energy.source();
      if (profile_) summary.trace = trace_file(folder);
      if (run.cluster != nullptr) {
        summary.staleness = run.cluster->staleness();
        summary.losses = run.cluster->losses();
        summary.absent = workers_of_servers() - run.cluster->working();
      } else {
        summary.losses = trainer.state().losses;  // of an earlier strategy of this run
      }
      if (options_.elastic != nullptr) summary.absent = begun_with_ - options_.elastic->size();
      summary.not_stored = checkpoints.not_stored();
      summary.after_checkpoint = checkpoints.failure();
      write_file(folder.summary(), to_json(summary), Links::refuse);
      share_ending(summary);
      all_is_written();
      if (options_.elastic != nullptr) folder.make_unknown();  // nobody goes on with a run that has ended
    };
    int before = options_.elastic != nullptr && !succession ? options_.elastic->size() : 0;
    const auto recovered = [&](const Recovery& recovery) {
      const auto& [changes, strategy, again] = recovery;
      const int left = options_.elastic->size();
      log.changed(changes.lost, changes.come, left, std::exchange(before, left), again, trainer.state());
      std::string text = fmt::format("{}{}{}{}{}; the run goes on after step {} with {} process{}",
                                     changes.lost.empty() ? "" : "lost: ", changes.lost,
                                     changes.lost.empty() || changes.come.empty() ? "" : "; ",
                                     changes.come.empty() ? "" : "come: ", changes.come, trainer.state().step,
                                     left, left == 1 ? "" : "es");
      if (!strategy.empty()) text += fmt::format(" ({})", strategy);
      if (again > 0) text += fmt::format("; {} step{} made again", again, again == 1 ? " is" : "s are");
      say(text);
    };
    if (succession) recovered(*succession);
    by_those_left(session, trainer, train, recovered);
    if (profile_) {
      const Links links = options_.profile->file.empty() ? Links::refuse : Links::follow;
      write_file(summary.trace, profile_->trace(), links);
    }
    return summary;
  }

  /// How many are to come; 0: the strategy has no parameter servers.
  int64_t workers_of_servers() const { return uses_servers(job_) ? all_workers_of(job_.strategy) : 0; }

  /// CheckpointWriting::store.
  std::function<std::string(const fs::path&, int64_t)> storing() {
    if (!storage_) return {};
    return [this](const fs::path& path, int64_t best_step) { return storage_->store(path, best_step); };
  }

  MetricsSources metrics_sources(const Session& session, const Trainer& trainer, const StreamPace* pace,
                                 const ClusterRun* cluster) const {
    MetricsSources sources{.figures = trainer.figures(), .pace = pace};
    if (opened_.data.stream != nullptr) sources.left_out = [&trainer] { return trainer.state().left_out; };
    if (cluster == nullptr) {
      sources.workers = [&session] { return session.replicas(); };
      return sources;
    }
    sources.workers = [cluster] { return cluster->working(); };
    if (cluster->wanted()) sources.workers_wanted = [cluster] { return *cluster->wanted(); };
    sources.staleness = [cluster] { return cluster->staleness(); };
    sources.repeated_parts = [cluster] { return cluster->losses()->workers.parts; };
    return sources;
  }

  /// The summary of a run that had ended before; its own stays as it is.
  RunSummary nothing_to_do(const RunFolder& folder, const Trainer& trainer, const ResumePoint& point) {
    RunSummary summary;
    summary.nothing_to_do = true;
    summary.absent = workers_of_servers();
    summary.folder = folder.path().string();
    summary.checkpoint = point.checkpoint.string();
    summary.stopped_early = trainer.state().stopped_early;
    if (storage_) summary.not_stored = storage_->store_missing(point.checkpoint, trainer.state().best_step);
    share_ending(summary);
    summary.why = why_ended(job_.training, summary.outcome, trainer.state());
    return summary;
  }

  /// Throws Error (user) if the topic is not the one of before any more. False: a stop came first.
  bool is_recognised(const TrainingState& state) const {
    if (opened_.data.stream == nullptr || state.position.bytes.empty()) return true;
    try {
      opened_.data.stream->recognise(state.position);
      return true;
    } catch (const ReadStopped&) {
      return false;
    }
  }

  /// Of a run that a stop ended before its first step.
  static RunSummary stopped_before(const RunFolder& folder, const std::optional<ResumePoint>& resumed) {
    RunSummary summary;
    summary.outcome = FitOutcome::stopped;
    summary.folder = folder.path().string();
    if (resumed) summary.checkpoint = resumed->checkpoint.string();
    return summary;
  }

  /// Null if the strategy has no parameter servers, or a stop ended the wait for them.
  std::unique_ptr<ClusterRun> start_cluster(const RunFolder& folder, const Session& session,
                                            Trainer& trainer) const {
    if (!uses_servers(job_)) return nullptr;
    auto cluster = std::make_unique<ClusterRun>(
        job_, opened_.data.spec(), opened_.decision,
        ClusterOptions{options_.coordinate, servers(), options_.listens, options_.security, options_.program,
                       folder.path(), options_.say, steps_of_epoch(), opened_.data.stream.get(),
                       options_.stop_requested, options_.goes_back});
    try {
      cluster->start(session, trainer.state());
    } catch (const Error& error) {
      if (!options_.stop_requested || !options_.stop_requested()) throw;
      warn(error.what());
      return nullptr;
    }
    trainer.make_steps_with(*cluster);
    return cluster;
  }

  /// What all processes except rank 0 do: the same steps, and nothing else.
  RunSummary follow(Session& session, Trainer& trainer) {
    RunSummary summary;
    const std::string end = !options_.comes                          ? share(session, trainer, "", {})
                            : replace(session, trainer).changes.over ? kFinished
                                                                     : "";
    summary.nothing_to_do = end == kFinished;
    if (summary.nothing_to_do && !options_.comes) share_ending(summary);
    if (end == kStopped) summary.outcome = FitOutcome::stopped;
    if (!end.empty()) return summary;
    since_step_ = trainer.state().step;
    CheckpointFollower checkpoints(session, checkpoint_policy(), *options_.processes);
    std::vector<TrainingObserver*> observers = {&last_, &checkpoints};
    if (options_.heir) observers.push_back(&held_);
    const std::optional<Recovery> succession = by_those_left(session, trainer, [&] {
      summary.outcome = fit(session, trainer, observers);
      checkpoints.follow();
      test(summary, session, trainer);
      fill_in(summary, session, trainer);
      share_ending(summary);
      all_is_written();
    });
    if (succession) return lead_after_another(session, trainer, *succession);
    if (profile_) profile_->trace();
    return summary;
  }

  /// All end with the exit code of rank 0 (exit_code_of): what starts them again needs all of them.
  void share_ending(RunSummary& summary) const {
    if (options_.processes != nullptr) options_.processes->broadcast(summary.not_stored);
  }

  /// What all processes come to when rank 0 has written everything: until then it may be lost.
  void all_is_written() const {
    if (options_.elastic != nullptr) options_.elastic->sleep_until_all_come();
  }

  /// Makes sure that this process alone can go on with the run, or says why it cannot, and throws.
  void take_over(const Trainer& trainer, const ElasticProcesses::Silent& silent) {
    try {
      if (!options_.comes && trainer.times().steps() < 2)
        throw run_error("the run had just begun");  // rank 0 may not have written its files
      if (!kept_.is_whole()) throw run_error("both processes that had a copy of the whole state are lost");
      folder_ = &taken_over_.emplace(RunFolder::take_over(home_.folder, home_.known, silent));
      if (!job_.output.storage.empty())  // at once, so that nobody else begins with it before a checkpoint
        storage_.emplace(job_.output, options_.heir->warn, stops())
            .succeed(home_.owner, options_.processes->rank());
    } catch (const Error& error) {
      const std::string why = fmt::format(
          "rank 0 is lost, and rank {} on {} cannot go on with the run: {}; the last checkpoint is whole; continue from it with --resume, with any number of processes",
          options_.processes->rank(), host_name(), error.what());
      options_.heir->refuses(why);
      throw run_error("{}", why);
    }
  }

  RunSummary lead_after_another(Session& session, Trainer& trainer, const Recovery& succession) {
    const Heir& heir = *options_.heir;
    options_.say = heir.say;
    options_.warn = heir.warn;
    options_.progress = heir.progress;
    heir.leads(options_.elastic->address());
    options_.elastic->admit(home_.task);
    try {
      if (!heir.metrics.empty()) metrics_server_ = std::make_unique<MetricsServer>(heir.metrics);
    } catch (const Error& error) {
      warn(fmt::format("the metrics are no longer at {}: {}", heir.metrics, error.what()));
    }
    try {
      return lead_on(*taken_over_, session, trainer, {}, succession);
    } catch (const std::exception& error) {
      write_failure(*taken_over_, trainer, as_error(error).what());
      throw;
    }
  }

  /// The same as rank 0 wrote at the beginning, maybe with other paths than this process has.
  ExtraFiles files_of(const RunFolder& folder) const {
    ExtraFiles files;
    for (const auto& [name, text] : files_of_run()) files.emplace(name, text_of(folder.path() / name));
    return files;
  }

  static std::string text_of(const fs::path& path) {
    const Bytes bytes = read_file(path);
    return {bytes.begin(), bytes.end()};
  }

  /// Tells all processes where rank 0 writes. Who has been given up knows the run by an earlier name.
  void share_home() {
    if (options_.elastic == nullptr) return;
    if (leads()) home_.known = folder_->make_known();
    if (leads() && storage_) home_.owner = storage_->owner();
    for (std::string* text : {&home_.folder, &home_.known, &home_.task, &home_.owner})
      options_.processes->broadcast(*text);
  }

  /// Does what all processes do together; if one is lost or comes, they begin it again from a state that rank
  /// 0 has as a whole. `recovered` is called in rank 0. If this process becomes rank 0, returns how.
  std::optional<Recovery> by_those_left(Session& session, Trainer& trainer, const std::function<void()>& work,
                                        const std::function<void(const Recovery&)>& recovered = {}) {
    while (true) {
      try {
        work();
        return std::nullopt;
      } catch (const Error&) {
        const bool for_a_newcomer = std::exchange(ended_for_newcomer_, false);  // it may be lost by now
        if (options_.elastic == nullptr || (!for_a_newcomer && !options_.elastic->lost())) throw;
        stops_ = false;  // who was asked to stop may be the one that is lost
      }
      Recovery recovery = replace(session, trainer);
      if (recovered)
        recovered(recovery);
      else if (leads())
        return recovery;
    }
  }

  bool someone_waits() const {
    return options_.elastic != nullptr && leads() && options_.elastic->someone_waits();
  }

  /// Forms the next group of processes, and goes on with what rank 0 has kept. Rank 0 returns how.
  Recovery replace(Session& session, Trainer& trainer) {
    if (!options_.elastic->waits() && !session.state_is_divided())
      kept_.keep(session, trainer.state(), options_.processes->rank());
    const int64_t reached = trainer.state().step;
    Recovery all;
    const auto add = [](std::string& names, const std::string& more) {
      names += (names.empty() || more.empty() ? "" : ", ") + more;
    };
    while (true) {
      ElasticProcesses::Changes more = options_.elastic->replace();
      add(all.changes.lost, more.lost);
      add(all.changes.come, more.come);
      all.changes.over = more.over;
      if (more.over) return all;
      try {
        const Job job = job_computed_by(*options_.processes);
        session.remake(job_program(job, opened_.data.spec(), options_.processes),
                       job_cluster(job, options_.processes));
        options_.elastic->drop_earlier();
        share_home();
        // Last of what they do together: where the state is not divided, it drops what is kept.
        trainer.restore(kept_.give(session, trainer.state().seconds, *options_.processes));
        trainer.set_part(own_part(session, options_.processes));
        all.strategy = workers_text(job);
        all.steps_again = reached - trainer.state().step;
        return all;
      } catch (const Error&) {
        if (!options_.elastic->lost()) throw;
      }
    }
  }

  /// The job with a number of workers that these processes can have.
  Job job_computed_by(const Processes& processes) const {
    return job_for(job_, opened_.data.spec(), begun_with_, processes.size());
  }

  static std::string workers_text(const Job& job) {
    if (!workers_of(job.strategy).of_all_processes) return "";
    const std::string& count = type_of(job.strategy).count;
    return fmt::format("strategy.{}: {}", count, job.strategy.options.integer(count));
  }

  FitOutcome fit(Session& session, Trainer& trainer, const std::vector<TrainingObserver*>& observers) const {
    const std::function<bool()> stop = between_steps(session, trainer);
    if (opened_.data.stream != nullptr) return trainer.fit(*opened_.data.stream, nullptr, observers, stop);
    if (!opened_.data.spread)
      return trainer.fit(*opened_.data.train, opened_.data.validation.get(), observers, stop);
    const SpreadParts& spread = *opened_.data.spread;
    const SpreadBatches train(*opened_.data.train, spread.train, spread.own,
                              {job_.training.batch, seed(), job_.data.shuffle});
    if (opened_.data.validation == nullptr) return trainer.fit(train.source(), nullptr, observers, stop);
    const SpreadBatches validation(*opened_.data.validation, spread.validation, spread.own,
                                   evaluation_order());
    return trainer.fit(train.source(), &validation.source(), observers, stop);
  }

  SpreadOrder evaluation_order() const { return {job_.training.evaluation_batch, seed(), false}; }

  uint64_t seed() const { return static_cast<uint64_t>(job_.training.seed); }

  bool is_audited() const { return job_.data.options.flag_or("audit", false); }

  /// Steps between two pauses for checkpoints; 0: none.
  int64_t pause_steps() const {
    const int64_t batch = job_.training.batch;
    const int64_t messages = job_.output.checkpoint_messages;
    return messages > 0 ? (messages + batch - 1) / batch : job_.output.checkpoint_steps;
  }

  /// Whether minutes have passed, by the clock of rank 0; empty if they do not matter.
  std::function<bool()> minutes_passed() const {
    if (job_.output.checkpoint_minutes == 0) return {};
    const auto minutes = std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(60 * job_.output.checkpoint_minutes));
    return [this, minutes, next = Clock::now() + minutes]() mutable {
      const bool mine = leads() && Clock::now() >= next;
      const bool due = options_.processes == nullptr ? mine : options_.processes->any(mine);
      if (due) next = Clock::now() + minutes;
      return due;
    };
  }

  /// For the progress of a stream: workers, and the latency if it is known.
  static std::string stream_text(const std::optional<StreamObserver>& stream, const ClusterRun* cluster) {
    if (!stream) return {};
    std::string text;
    if (cluster != nullptr)
      text = fmt::format("{} worker{}", cluster->working(), cluster->working() == 1 ? "" : "s");
    if (stream->latency().count() == 0) return text;
    const LatencyCounts& latency = stream->latency();
    return text + fmt::format("{}latency {:.0f} ms, 99 % {:.0f} ms", text.empty() ? "" : "  ",
                              1e3 * latency.quantile(0.5), 1e3 * latency.quantile(0.99));
  }

  CheckpointPolicy checkpoint_policy() const {
    const OutputJob& output = job_.output;
    return {output.checkpoint_epochs, pause_steps(), output.keep};
  }

  std::string trace_file(const RunFolder& folder) const {
    const std::string& file = options_.profile->file;
    return file.empty() ? (folder.path() / "trace.json").string() : file;
  }

  /// A stop breaks it off; a resumed run begins it again.
  void test(RunSummary& summary, const Session& session, const Trainer& trainer) const {
    if (summary.outcome != FitOutcome::finished || opened_.data.test == nullptr) return;
    const std::function<bool()> stop = between_steps(session, trainer);
    std::optional<std::vector<double>> means;
    if (!opened_.data.spread) {
      means = trainer.evaluate(*opened_.data.test, stop);
    } else {
      const SpreadBatches batches(*opened_.data.test, opened_.data.spread->test, opened_.data.spread->own,
                                  evaluation_order());
      means = trainer.evaluate(batches.source(), stop);
    }
    if (means) summary.test = std::move(*means);
    if (!means) summary.outcome = FitOutcome::stopped;
  }

  /// Sends rank 0's tensors to all processes. If they are divided among processes, rank 0's session has only
  /// a part of the checkpoint, so they come from its files; without one, all initialise their part alike.
  void share_state(Session& session, const fs::path& checkpoint) const {
    const bool divided = session.state_is_divided();
    std::string files = checkpoint.empty() ? "" : "files";
    if (divided) options_.processes->broadcast(files);
    if (divided && files.empty()) return take_given_parts(session);
    std::vector<StateName> names = session.state_names();
    if (divided) add_own_states(names, session, checkpoint);
    for (const StateName& name : names) {
      share_tensor(
          name, [&] { return divided ? read_checkpoint_tensor(checkpoint, name) : session.read_state(name); },
          session, *options_.processes);
    }
  }

  /// Adds the names of what workers have of their own in the checkpoint, which only rank 0 can read: all
  /// their parameters or none, all their optimizer state or none.
  void add_own_states(std::vector<StateName>& names, const Session& session,
                      const fs::path& checkpoint) const {
    std::string kinds;
    if (leads())
      for (const StateName& own : own_states(checkpoint, session).names)
        kinds += own.is_parameter() ? 'p' : 'o';
    options_.processes->broadcast(kinds);
    const std::vector<StateName> shared = names;
    for (int64_t worker = 0; !kinds.empty() && worker < session.program().mesh.workers(); ++worker)
      for (StateName name : shared) {
        if (kinds.find(name.is_parameter() ? 'p' : 'o') == std::string::npos) continue;
        name.worker = worker;
        names.push_back(std::move(name));
      }
  }

  /// Why the run does not begin, of rank 0: it had ended before, or is stopped. Empty: it does.
  std::string share_beginning(std::string end) const {
    if (options_.processes != nullptr) options_.processes->broadcast(end);
    return end;
  }

  /// Sends rank 0's state to all processes, because only rank 0 has read `checkpoint` (empty: there is none).
  /// Takes and returns the same as share_beginning(); if it is not empty, nothing else is sent.
  std::string share(Session& session, Trainer& trainer, std::string end, const fs::path& checkpoint) {
    end = share_beginning(std::move(end));
    if (!end.empty() || options_.processes == nullptr) return end;
    share_state(session, checkpoint);
    trainer.restore(shared_state(trainer.state(), *options_.processes));
    if (options_.elastic != nullptr && session.state_is_divided())
      kept_.keep(session, trainer.state(), options_.processes->rank());
    share_home();
    return end;
  }

  /// Called between two steps or batches of a validation: whether to stop. A request to stop in one process
  /// stops all of them at the same step.
  std::function<bool()> between_steps(const Session& session, const Trainer& trainer) const {
    if (options_.processes == nullptr) return options_.stop_requested;
    return [this, &session, &trainer] {
      enum Word : int { kStop, kNewcomer, kGoOn };
      const bool stops = options_.stop_requested && options_.stop_requested();
      // Replicas that train alone have one state at the end of an epoch only: a newcomer waits for it.
      const bool may_come = !trains_alone(session.program()) || trainer.state().step_in_epoch == 0;
      const int word = options_.processes->lowest(stops                         ? kStop
                                                  : may_come && someone_waits() ? kNewcomer
                                                                                : kGoOn);
      const int64_t steps = word == kNewcomer ? 0 : job_.strategy.keep_steps;
      if (options_.elastic != nullptr && kept_.due(session, trainer.state(), steps))
        kept_.keep(session, trainer.state(), options_.processes->rank());
      held_.clear();
      ended_for_newcomer_ = word == kNewcomer;
      if (ended_for_newcomer_) throw run_error("another process takes part from here on");
      stops_ = word == kStop;
      return word == kStop;
    };
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
    for (const StateName& name : session.state_names()) {
      checkpoint += sizeof(float) * static_cast<uint64_t>(session.state_shape(name).elements());
    }
    if (trains_alone(session.program()))  // each worker has its own besides
      checkpoint *= 1 + static_cast<uint64_t>(session.program().mesh.workers());
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
    if (opened_.data.stream != nullptr) return telar::steps_of_epoch(job_, *opened_.data.stream);
    return (opened_.data.train->size() + job_.training.batch - 1) / job_.training.batch;
  }

  TrainerOptions trainer_options(const Session& session) const {
    const TrainingJob& training = job_.training;
    TrainerOptions options = job_batches(job_, opened_.data.spec(), session, options_.processes);
    options.epochs = training.epochs;
    options.epoch_steps = training.epoch_steps;
    options.schedule = job_schedule(job_, steps_of_epoch());
    options.early_stopping = {training.early_stopping_metric, training.early_stopping_patience};
    options.pause_steps = pause_steps();
    options.pause_requested = minutes_passed();
    if (const StreamPtr& stream = opened_.data.stream; stream != nullptr) {
      options.evaluation = job_evaluation(job_, session.metric_names());
      options.left_out = [stream, by_workers = uses_servers(job_)](const CompletedStep& step) {
        return left_out_of(*stream, step, by_workers);
      };
    }
    return options;
  }

  ExtraFiles files_of_run() const {
    ExtraFiles files = {{"job.yaml", job_text(job_)},
                        {"samples.json", to_json(opened_.data.spec(), job_.data.rules)},
                        {"data.json", to_json(opened_.record)}};
    for (const auto& [option, name] : source_type(job_.data.source).kept)
      if (const std::string& path = job_.data.options.text(option); !path.empty())
        files[name] = text_of(path);
    return files;
  }

  /// What the run is, for its next resumption.
  void write_files(const RunFolder& folder) const {
    ExtraFiles files = files_of_run();
    const auto job = files.extract("job.yaml");  // the last one: with it there is a run
    for (const auto& [name, text] : files) write_file(folder.path() / name, text, Links::refuse);
    write_file(folder.job(), job.mapped(), Links::refuse);
    const std::string columns = opened_.data.columns_text();
    if (!columns.empty()) write_file(folder.columns(), columns, Links::refuse);
  }

  /// Of a new run, or one that was stopped before its first checkpoint.
  void say_begin(const RunFolder& folder) const {
    say(fmt::format("run folder: {}", folder.path().string()));
    if (opened_.data.stream != nullptr) say("samples: " + opened_.data.stream->described());
  }

  /// Resumes from the newest intact checkpoint. Empty if there is none.
  std::optional<ResumePoint> go_on(const RunFolder& folder, Session& session, Trainer& trainer) const {
    auto point = resume_point({folder, job_, opened_.record, session.metric_names().size(),
                               job_workers(job_, options_.processes), options_.accept_changed_data});
    if (!point) {
      say(fmt::format("no checkpoint in {} yet: starting from the beginning", folder.path().string()));
      fs::remove(folder.metrics());
      fs::remove(folder.offsets());
      return point;
    }
    for (const std::string& warning : point->warnings) warn(warning);
    load_all(point->checkpoint, session);
    if (const OwnStates own = own_states(point->checkpoint, session); !own.why_not.empty()) warn(own.why_not);
    trainer.restore(point->state);
    return point;
  }

  /// Makes the files of the run those of its resumption at this point.
  void rewind(const RunFolder& folder, const ResumePoint& point) const {
    const TrainingState& state = point.state;
    for (const fs::path& path : set_aside_checkpoints_after(folder.checkpoints(), state.step))
      say(fmt::format("the damaged checkpoint is kept as {}", path.string()));
    discard_metrics_after(folder.metrics(), state.step);
    discard_metrics_after(folder.offsets(), state.step);
    say(fmt::format("resuming {} after step {} (epoch {}, step {} of it), from {}", folder.path().string(),
                    state.step, state.epoch + 1, state.step_in_epoch, point.checkpoint.string()));
  }

  LogObserver make_log(const RunFolder& folder, const Session& session, int64_t step, int64_t samples,
                       bool resumed, const StreamPace* pace) const {
    EventFiles events;
    if (job_.output.tensorboard) {
      events.by_steps = std::make_unique<TensorBoardWriter>(folder.path());
      if (resumed) events.by_steps->add_resume(step);
      events.by_steps->add_graph(run_graph(session.program(), job_.strategy));
      events.by_steps->flush();
    }
    if (job_.output.tensorboard && opened_.data.stream != nullptr) {
      events.by_samples = std::make_unique<TensorBoardWriter>(folder.by_messages());
      if (resumed) events.by_samples->add_resume(samples);
    }
    return {MetricsLog(folder.metrics()),
            std::move(events),
            job_figures(job_, opened_.data.spec(), session),
            job_.output.log_steps,
            [this](const std::string& text) { warn(text); },
            pace};
  }

  /// Samples of files, or the messages of a stream in all steps.
  int64_t left_out(const Trainer& trainer) const {
    return opened_.data.left_out_count() + trainer.state().left_out;
  }

  /// Waits for all processes.
  void fill_in(RunSummary& summary, const Session& session, const Trainer& trainer) const {
    add_figures(summary, {job_, session, trainer, profile_ ? &*profile_ : nullptr, options_.processes});
    summary.since_step = since_step_;
    summary.wall_seconds = seconds_since(start_);
    summary.left_out_samples = left_out(trainer);
  }

  Clock::time_point start_ = Clock::now();
  Job job_;
  RunOptions options_;
  std::string workers_;  ///< description of the settings that depend on their number
  RunData opened_;
  const int64_t begun_with_;  ///< processes
  int64_t since_step_ = 0;    ///< after which this process began
  mutable KeptState kept_;
  mutable HeldReports held_;
  mutable std::atomic<bool> stops_ = false;  ///< all processes stop at this step
  RunHome home_;
  std::optional<RunStorage> storage_;        ///< in rank 0, if the job names one
  const RunFolder* folder_ = nullptr;        ///< of an elastic run, in rank 0
  std::optional<RunFolder> taken_over_;      ///< from a rank 0 that was lost
  mutable bool ended_for_newcomer_ = false;  ///< what all do together
  LastEpoch last_;
  std::optional<RunProfile> profile_;
  std::unique_ptr<MetricsServer> metrics_server_;  ///< until there is an observer that serves
};

}  // namespace

bool has_trained(const Job& job, bool resume) {
  const auto is_over = [&](const TrainingState& state) {
    const int64_t patience = job.training.early_stopping_patience;  // may be another one than before
    return state.epoch >= job.training.epochs || (patience > 0 && state.epochs_since_best >= patience);
  };
  try {
    const auto folder = resume ? RunFolder::find(job) : std::nullopt;
    const auto checkpoint = folder ? newest_checkpoint(*folder / "checkpoints") : std::nullopt;
    if (checkpoint && is_over(checkpoint->state)) return true;
    if (job.output.storage.empty()) return false;
    RunStorage storage(job.output, {});
    storage.look();
    return storage.has_checkpoint() && is_over(storage.newest_state());
  } catch (const Error&) {
    return false;  // the run itself says what is wrong
  }
}

RunSummary run_job(Job job, RunOptions options) {
  constexpr int kReturns = 3;
  fs::path checkpoint;
  int returns = 0;  // to this checkpoint
  // A supervisor starts servers and all else again, maybe on other hosts.
  if (options.own_servers.empty() && !options.listens)
    options.goes_back = [&, stop = options.stop_requested](const fs::path& newest) {
      returns = std::exchange(checkpoint, newest) == newest ? returns + 1 : 1;
      return returns <= kReturns && !(stop && stop());
    };
  for (bool again = false;; again = true) {
    try {
      return Run(job, options).run();
    } catch (const CopiesLost& lost) {
      job.output.folder = lost.folder().string();
      options.resume = true;
      options.coordinate = lost.coordinator();
    } catch (const Error& error) {
      if (!again) throw;
      throw run_error("{}", error.what());  // what had been right when the run began
    }
  }
}

void check_runs(Job job) {
  settle_workers(job, job_workers(job, nullptr));
  const SampleSpec spec = spec_of_samples(job);
  require_memory(job, spec);
  job_program(job, spec, nullptr, Costs::estimated);
  if (!job.model.weights.empty()) given_values(job.model.weights, parameters_of(job_model(job, spec)));
}

}  // namespace telar
