#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "telar/cli/fold_results.h"
#include "telar/cli/options.h"
#include "telar/cli/run_ending.h"
#include "telar/cli/service.h"
#include "telar/cli/together.h"
#include "telar/cli/verbs.h"
#include "telar/comm/peers/peer_links.h"
#include "telar/core/error.h"
#include "telar/data/files.h"
#include "telar/data/source.h"
#include "telar/io/atomic_file.h"
#include "telar/io/disk.h"
#include "telar/launch/supervisor.h"
#include "telar/observe/process.h"
#include "telar/observe/progress.h"
#include "telar/observe/stop_request.h"
#include "telar/train/job_changes.h"
#include "telar/train/job_reader.h"
#include "telar/train/job_report.h"
#include "telar/train/job_strategy.h"
#include "telar/train/run.h"
#include "telar/train/run_folder.h"
#include "telar/train/shared_task.h"
#include "telar/train/training_observer.h"

namespace telar::cli {

namespace {

constexpr StopRequest::Messages kTrainStops = {
    "stopping after the steps that have begun, with a checkpoint; a second Ctrl-C quits at once and loses the work since the last checkpoint\n",
    "quitting at once; the run continues from its last checkpoint with: telar train RUN --resume\n"};

const std::string kAllFolds = "all";

struct TrainArguments {
  std::string job;
  std::vector<std::string> overrides;
  std::string summary;
  std::string fold;  ///< a number, or kAllFolds; empty: not given
  std::string output;
  int64_t workers = 0;  ///< 0: not given
  std::string coordinate;
  double wait = 0;
  double linger = 0;
  std::string address_file;
  std::vector<std::string> own_servers;
  std::string metrics;
  SecurityArguments security;
  bool resume = false;
  bool supervised = false;
  bool accept_changed_data = false;
  bool check = false;
  bool quiet = false;
  ProfileOptions profile;
};

/// RUN/job.yaml does not name the folder RUN, so --resume would continue another run or begin one.
void require_no_job_of_run(const std::filesystem::path& path) {
  if (path.filename() != "job.yaml" || !std::filesystem::is_regular_file(path)) return;
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  require_no_part_of_run(folder);
  if (!std::filesystem::is_directory(folder / "checkpoints")) return;
  throw user_error("{} is the job of a run; to resume the run, give its folder: telar train {} --resume",
                   path.string(), path.has_parent_path() ? path.parent_path().string() : ".");
}

/// The job of a job file, or of a run folder that is to be resumed.
/// Refuses a file that cannot be written after the training. Its folder may be one that the run makes: the
/// run's own, and those above it.
void require_writable(const std::string& option, const std::string& file, const std::string& run_folder) {
  if (file.empty()) return;
  const std::string made = run_folder.empty() ? "runs/new" : run_folder;
  const std::filesystem::path run = std::filesystem::absolute(made).lexically_normal();
  const std::filesystem::path folder = std::filesystem::absolute(file).lexically_normal().parent_path();
  const bool above =
      std::mismatch(folder.begin(), folder.end(), run.begin(), run.end()).first == folder.end();
  if (!std::filesystem::exists(folder) && above) return;
  const std::string wrong = wrong_with_output(file);
  if (!wrong.empty()) throw user_error("{}: {}", option, wrong);
}

Job job_of(const TrainArguments& arguments, const Processes* started) {
  const std::filesystem::path path = arguments.job;
  if (std::filesystem::is_directory(path)) require_no_part_of_run(path);
  if (arguments.resume && arguments.output.empty()) require_no_job_of_run(path);
  const bool run_folder = std::filesystem::is_regular_file(path / "job.yaml");
  if (run_folder && !arguments.fold.empty())
    throw user_error("--fold: {} is a run, whose job names its fold; give the job of the folds",
                     path.string());
  std::vector<std::string> overrides = arguments.overrides;
  if (!arguments.fold.empty() && arguments.fold != kAllFolds)
    overrides.push_back("data.fold=" + arguments.fold);
  const int64_t processes = started == nullptr ? arguments.workers : started->size();
  Job job = read_job(run_folder ? path / "job.yaml" : path, overrides, processes);
  const std::string implied = implied_text(job.strategy, processes);
  if (!implied.empty() && !arguments.quiet && (started == nullptr || started->rank() == 0))
    std::cout << implied << std::endl;
  if (!arguments.fold.empty() && job.data.folds == 0)
    throw user_error("--fold: the job has no folds; give their number, as in --set data.folds=5");
  if (run_folder) job.output.folder = path.string();
  if (!arguments.output.empty()) job.output.folder = arguments.output;
  for (const std::string& written : {job.output.folder, arguments.summary, arguments.profile.file})
    require_local(written);
  require_writable("--summary", arguments.summary, job.output.folder);
  require_writable("--profile", arguments.profile.file, job.output.folder);
  if (run_folder && !arguments.resume && !arguments.check && arguments.output.empty()) {
    throw user_error(
        "{} is a run folder; resume the run with --resume, or train its job again in another folder with --output",
        path.string());
  }
  return job;
}

/// Tells the supervisor which step is the first.
class FirstStepLine final : public TrainingObserver {
 public:
  void step_done(const StepReport& /*report*/, const TrainingState& state) override {
    if (!std::exchange(said_, true)) std::cout << kStepLine << state.step << std::endl;
  }

 private:
  bool said_ = false;
};

/// `absent`: is set to RunSummary::absent.
int train(const Job& job, const TrainArguments& arguments, bool profile, Processes* processes,
          ElasticProcesses* elastic = nullptr, int64_t* absent = nullptr) {
  const bool quiet = arguments.quiet || (processes != nullptr && processes->rank() > 0);
  if (arguments.check) {
    const std::string text = job_report(
        job, [](const std::string& warning) { std::cerr << "warning: " << warning << std::endl; },
        [quiet](const std::string& progress) {
          if (!quiet) std::cerr << progress << std::endl;
        },
        processes);
    if (!quiet) std::cout << arguments.job << " is valid\n" << text;
    return 0;
  }
  const StopRequest stop(quiet ? StopRequest::Messages{} : kTrainStops);
  Progress progress(std::cout, progress_of(job, quiet));
  RunOptions options;
  options.resume = arguments.resume;
  options.accept_changed_data = arguments.accept_changed_data;
  options.stop_requested = [&stop] { return stop.requested(); };
  options.progress = &progress;
  options.processes = processes;
  options.elastic = elastic;
  options.program = std::filesystem::read_symlink("/proc/self/exe").string();
  FirstStepLine first_step;
  if (arguments.supervised) options.observer = &first_step;
  if (uses_servers(job)) options.coordinate = arguments.coordinate;
  options.own_servers = arguments.own_servers;
  if (arguments.supervised)
    options.listens = [](const std::string& address) { std::cout << kAddressLine << address << std::endl; };
  options.metrics = arguments.metrics;
  if (!arguments.summary.empty()) options.summary = std::filesystem::absolute(arguments.summary).string();
  options.quiet = arguments.quiet;
  options.security = security_of(arguments.security);
  if (profile) options.profile = arguments.profile;
  options.say = [&](const std::string& text) { progress.message(text); };
  options.warn = [&](const std::string& text) {
    if (!quiet) std::cerr << "warning: " << text << std::endl;
  };
  const RunSummary summary = run_job(job, options);
  const int code = exit_code_of(summary, stop.requested() ? stop.signal_number() : 0, processes);
  if (processes != nullptr && processes->rank() > 0) return code;
  if (absent != nullptr) *absent = summary.absent;
  say_ended(summary, arguments.summary, quiet);
  end_with_newcomers(summary, elastic);
  return code;
}

/// Throws Error (user) unless the run can lose a process as the job says. A job may be checked by one alone.
void require_enough(const Job& job, const TrainArguments& arguments, const Processes* started) {
  const int64_t least = job.strategy.min_workers;
  if (least == 0 || (arguments.check && arguments.workers == 0 && started == nullptr)) return;
  if (started != nullptr)
    throw user_error(
        "strategy.min_workers is {}, but mpirun ends all processes when one is lost: start them by --workers, or leave it out",
        least);
  const int64_t workers = std::max<int64_t>(1, arguments.workers);
  if (least > workers)
    throw user_error("strategy.min_workers is {}, but the run has {} process{} (--workers)", least, workers,
                     workers == 1 ? "" : "es");
}

/// Says where the other processes join.
void say_address(const TrainArguments& arguments, const std::string& address) {
  if (!arguments.address_file.empty()) write_file(arguments.address_file, address + "\n");
  if (arguments.supervised) {
    std::cout << kAddressLine << address << std::endl;
  } else if (!arguments.quiet) {
    std::cout << fmt::format("waiting for {} other process{}: telar work --join {}", arguments.workers - 1,
                             arguments.workers == 2 ? "" : "es", reachable(address))
              << std::endl;
  }
}

/// The processes of a strategy in lockstep, without MPI; null: this one alone. `address`: is set to where
/// they join.
std::unique_ptr<PeerGroup> peers_of(const Job& job, const TrainArguments& arguments, bool profile,
                                    const Processes* started, std::string& address) {
  const bool coordinates = !arguments.coordinate.empty();
  if (uses_servers(job)) {
    if (arguments.workers > 0)
      throw user_error("--workers: with strategy '{}', strategy.workers says how many workers there are",
                       job.strategy.name);
    if (!arguments.address_file.empty() || arguments.wait > 0)
      throw user_error("{} is for strategies without parameter servers; '{}' has servers",
                       arguments.wait > 0 ? "--wait" : "--address-file", job.strategy.name);
    if (arguments.linger > 0 && arguments.coordinate.ends_with(":0"))
      throw user_error("--linger: name a port in --coordinate, so that processes that come late know it");
    return nullptr;
  }
  if (!coordinates && (!arguments.address_file.empty() || arguments.wait > 0))
    throw user_error("{} needs --coordinate: nobody joins this run",
                     arguments.wait > 0 ? "--wait" : "--address-file");
  if (coordinates && arguments.workers == 0)
    throw user_error("--coordinate: say with --workers how many processes there will be, with this one");
  require_enough(job, arguments, started);
  if (arguments.workers <= 1) return nullptr;
  workers_of_process(job.strategy, static_cast<int>(arguments.workers));  // before others are waited for
  if (started != nullptr)
    throw user_error("mpirun has started {} processes, and --workers would start others: use one of both",
                     started->size());
  SharedTask task{.job = job,
                  .resume = arguments.resume,
                  .accept_changed_data = arguments.accept_changed_data,
                  .check = arguments.check,
                  .metrics = arguments.metrics,
                  .quiet = arguments.quiet};
  if (!arguments.summary.empty()) task.summary = std::filesystem::absolute(arguments.summary).string();
  if (profile) task.profile_steps = arguments.profile.steps;
  const StopRequest stop({nullptr, nullptr});
  bool alone = false;
  try {
    return std::make_unique<PeerGroup>(
        PeerStart{.workers = arguments.workers,
                  .min_workers = job.strategy.min_workers,
                  .coordinate = arguments.coordinate,
                  .wait = arguments.wait,
                  .needs_nobody = [&] { return alone = has_trained(job, arguments.resume); },
                  .listens = [&](const std::string& at) { say_address(arguments, address = at); },
                  .security = security_of(arguments.security),
                  .description = to_json(task),
                  .stop_requested = [&stop] { return stop.requested(); },
                  .say =
                      [quiet = arguments.quiet](const std::string& text) {
                        if (!quiet) std::cout << text << std::endl;
                      }});
  } catch (const Error&) {
    if (!alone || stop.requested()) throw;
    if (!arguments.quiet)
      std::cout << "nobody else has come; the training is over, and needs nobody" << std::endl;
    return nullptr;
  }
}

/// When the run has ended well: a process that takes the place of a lost one may come later than that.
void linger(const TrainArguments& arguments, const std::string& address, int64_t absent) {
  if (arguments.linger == 0 || arguments.check || absent <= 0) return;
  const StopRequest stop({nullptr, nullptr});
  const auto say = [&](const std::string& text) {
    if (!arguments.quiet) std::cout << text << std::endl;
  };
  say(fmt::format(
      "the run is over; {} of its processes {} not here: for up to {:g} s, those that come are told so",
      absent, absent == 1 ? "is" : "are", arguments.linger));
  try {
    const int told = tell_late_processes(
        address, static_cast<int>(absent), arguments.linger,
        {.purpose = kTrainPurpose, .security = security_of(arguments.security), .stop = {}, .say = say},
        [&stop] { return stop.requested(); });
    say(fmt::format("{} of {} came, and know that the run is over", told, absent));
  } catch (const Error& error) {  // another program may have taken the port
    std::cerr << "warning: processes that come late are not told that the run is over: " << error.what()
              << std::endl;
  }
}

/// Throws Error (user) if a fold was trained with another job than the first one, as after --resume with a
/// new rate, for which a fold that had ended is not trained again.
void require_one_job(const std::filesystem::path& base, int64_t folds) {
  const std::filesystem::path first = fold_folder(base, 1);
  for (int64_t fold = 2; fold <= folds; ++fold) {
    const std::filesystem::path other = fold_folder(base, fold);
    std::vector<std::string> texts;
    for (const JobChange& change : changes_of(
             job_changes(read_job(first / "job.yaml"), read_job(other / "job.yaml")), OnResume::recorded))
      texts.push_back(change.str());
    if (!texts.empty())
      throw user_error(
          "{} and {} were trained with different jobs, so they have no mean: {}; remove one of the folders and train it again with --resume",
          first.string(), other.string(), fmt::join(texts, "; "));
  }
}

/// Trains once for each fold, in BASE/fold-N, and writes what they reached to BASE/folds.json.
int train_folds(const Job& job, const TrainArguments& arguments, const Processes* started) {
  if (started != nullptr || arguments.workers > 1)
    throw user_error(
        "--fold all trains one fold after another in one process; with several processes, train each fold by itself, as in --fold 1");
  if (arguments.resume && job.output.folder.empty())
    throw user_error("--fold all --resume: say with --output which folder has the folds");
  const bool writes = !arguments.check;
  std::filesystem::path base = job.output.folder;
  if (!base.empty() && std::filesystem::exists(base / "job.yaml"))
    throw user_error("{} is the folder of a run; the folds need their own (--output)", base.string());
  const bool claims = base.empty() && writes;
  if (claims) base = claim_run_folder(job.name);
  TrainArguments of_fold = arguments;
  of_fold.summary = "";
  FoldResults results;
  for (int64_t fold = 1; fold <= job.data.folds; ++fold) {
    const std::filesystem::path folder = fold_folder(base, fold);
    if (!arguments.quiet) std::cout << fmt::format("fold {} of {}", fold, job.data.folds) << std::endl;
    Job own = changed_job(job, "--fold", {fmt::format("data.fold={}", fold)});
    own.output.folder = folder.string();
    if (!own.output.storage.empty()) own.output.storage += "/" + folder.filename().string();
    int code = 0;
    try {
      code = train(own, of_fold, false, nullptr);
    } catch (...) {
      std::error_code ignored;
      if (claims) std::filesystem::remove(base, ignored);  // if it is empty
      throw;
    }
    if (code != 0) {
      if (!arguments.quiet)
        std::cout << "the other folds follow with the same command and --resume --output " << base.string()
                  << std::endl;
      return code;
    }
    if (!writes) continue;
    const Bytes summary = read_file(folder / "summary.json");
    results.add({summary.begin(), summary.end()});
  }
  if (!writes) return 0;
  require_one_job(base, job.data.folds);
  write_file(base / "folds.json", results.json());
  if (!arguments.summary.empty()) write_file(arguments.summary, results.json());
  if (!arguments.quiet)
    std::cout << fmt::format("{} folds, mean ± standard deviation\n{}", job.data.folds, results.text())
              << std::flush;
  return 0;
}

int train(const TrainArguments& arguments, bool profile) {
  std::optional<EndsWithInput> ends_with_input;
  if (arguments.supervised) ends_with_input.emplace();
  const std::unique_ptr<Processes> started = join_together();
  std::unique_ptr<PeerGroup> peers;
  std::optional<Job> job;
  std::string address = arguments.coordinate;
  int64_t absent = 0;
  const auto prepare = [&] {
    if (arguments.linger > 0 && arguments.fold == kAllFolds)
      throw user_error("--linger is for one run; leave it out with --fold all");
    job = job_of(arguments, started.get());
    if (arguments.fold == kAllFolds) return train_folds(*job, arguments, started.get());
    peers = peers_of(*job, arguments, profile, started.get(), address);
    if (peers != nullptr) return 0;
    const int code = train(*job, arguments, profile, started.get(), nullptr, &absent);
    if (arguments.workers > 1) absent = arguments.workers - 1;
    return code;
  };
  int code = run_together(started.get(), prepare);
  if (peers != nullptr)
    code = run_together(&peers->processes(), [&] {
      return train(*job, arguments, profile, &peers->processes(), peers->elastic(), &absent);
    });
  peers.reset();
  if (code == 0) linger(arguments, address, absent);
  return code;
}

}  // namespace

void add_train(Verb& program) {
  auto arguments = std::make_shared<TrainArguments>();
  Verb verb = program.subverb("train", "Trains the network of a job");
  verb.option("JOB", arguments->job, "A job file (docs/job.md), or the folder of a run to resume").required();
  add_overrides(verb, arguments->overrides);
  verb.option("--summary", arguments->summary, "Write the result as JSON to this file");
  verb.option("--output", arguments->output, "Run folder; without it, a new folder runs/NAME-N");
  verb.option("--workers", arguments->workers,
              "Train in so many processes, with this one: they are started here, or join at --coordinate")
      .between(1, 10'000);
  const Option coordinate = verb.option(
      "--coordinate", arguments->coordinate,
      "HOST:PORT where processes on other hosts join (telar work); of a strategy with servers, strategy.server_addresses names them");
  verb.option(
          "--wait", arguments->wait,
          "Seconds to wait at --coordinate until all processes have joined; without it, for ever. A run whose training is over already goes on alone after a minute")
      .between(0.0, 1e6);
  verb.option("--linger", arguments->linger,
              "Seconds to stay when the run is over and lost processes were not replaced, to tell those that "
              "join late")
      .between(0.0, 1e6)
      .needs(coordinate);
  verb.option("--own-servers", arguments->own_servers,
              "Parameter servers that were started for this process only (telar launch)")
      .one_value_at_a_time()
      .hidden();
  verb.option("--address-file", arguments->address_file,
              "Write the address where the processes join to this file, for a port 0");
  verb.option(
      "--metrics", arguments->metrics,
      "HOST:PORT where Prometheus reads loss, rates, lag and workers while it trains (docs/stream.md)");
  add_supervised(verb, arguments->supervised);
  add_security(verb, arguments->security);
  verb.flag("--resume", arguments->resume, "Resume from the run's newest checkpoint");
  verb.flag("--accept-changed-data", arguments->accept_changed_data,
            "Resume although the data are not those on which the run was trained");
  verb.flag("--check", arguments->check, "Check the job without training: its keys, samples and memory");
  verb.flag("--quiet", arguments->quiet, "Print only errors");
  const Option fold =
      verb.option("--fold", arguments->fold,
                  "The fold for validation (data.folds), or all: train once for each, and print the means")
          .value_name("N|all")
          .check([](const std::string& value) {
            const bool digits = !value.empty() && value.find_first_not_of("0123456789") == std::string::npos;
            return digits || value == kAllFolds ? "" : "must be the number of a fold, or all";
          });
  const Option profile =
      verb.option(
              "--profile", arguments->profile.file,
              "Print how the time of the steps divides into phases, and write the operations of the first steps as a trace for chrome://tracing or ui.perfetto.dev to this file, or without it to trace.json in the run folder")
          .value_optional()
          .excludes(fold);
  verb.option("--profile-steps", arguments->profile.steps, "Steps in the trace (20)")
      .between(1, 100'000)
      .needs(profile);
  verb.footer(
      "Examples:\n"
      "  telar train examples/fashion_mnist.yaml\n"
      "  telar train examples/mlp.yaml --set training.epochs=3 --set optimizer.learning_rate=0.01\n"
      "  telar train runs/fashion_mnist-1 --resume\n"
      "  telar train examples/mlp.yaml --profile\n"
      "  telar train examples/mlp.yaml --set data.folds=5 --fold all\n"
      "  telar train examples/fashion_mnist.yaml --workers 2\n"
      "  telar train examples/fashion_mnist.yaml --workers 2 --coordinate trainer:7000 --certificates certs --token-file token\n"
      "  mpirun -n 2 telar train examples/fashion_mnist.yaml\n"
      "  mpirun -n 2 telar train examples/fashion_mnist.yaml --set strategy.name=pipeline --set strategy.stages=2\n"
      "  telar train examples/fashion_mnist.yaml --set strategy.name=downpour --set strategy.workers=2\n"
      "Ctrl-C stops the training after the current step, with a checkpoint; a second Ctrl-C quits at once.\n"
      "Exit codes: 0 success, 1 the run failed, 2 invalid job or command line, 130 stopped by Ctrl-C, 143 by SIGTERM,\n"
      "129 by a lost connection (SIGHUP), 75 stopped while output.storage did not take the last checkpoint.");
  verb.action_of_each_process([arguments, profile] { return train(*arguments, profile.given()); });
}

}  // namespace telar::cli
