#include <memory>

#include "telar/bench/trials.h"
#include "telar/cli/experiment.h"
#include "telar/cli/options.h"
#include "telar/cli/sweep_progress.h"
#include "telar/cli/verbs.h"
#include "telar/core/error.h"
#include "telar/observe/stop_request.h"

namespace telar::cli {

namespace {

struct SweepArguments {
  bench::TrialOptions options;
  std::string output;
  ResultFiles files;
};

int sweep(SweepArguments arguments) {
  const StopRequest stop(kExperimentStops);
  bench::TrialOptions& options = arguments.options;
  options.program = std::filesystem::read_symlink("/proc/self/exe").string();
  if (options.resume && arguments.output.empty())
    throw user_error("--resume: say with --output which folder has the trials");
  options.folder = options.resume
                       ? std::filesystem::path(arguments.output)
                       : experiment_folder(arguments.output, "sweep-" + options.job.stem().string());
  SweepProgress progress;
  const bench::Result result =
      bench::try_values(options, watch_sweep(
                                     progress, [&stop] { return stop.requested(); }, options.folder));
  publish_runs(result, arguments.files, options.folder);
  return stop.requested() ? 128 + stop.signal_number() : 0;
}

}  // namespace

void add_sweep(Verb& program) {
  auto arguments = std::make_shared<SweepArguments>();
  bench::TrialOptions& options = arguments->options;
  Verb verb = program.subverb("sweep", "Trains a job with different values of some keys and orders them");
  verb.option("JOB", options.job, "A job file (docs/job.md)").required();
  verb.option("--vary", options.vary,
              "A key and its values, KEY=VALUE,VALUE,… or KEY=LEAST..MOST; may be given several times")
      .required();
  verb.option("--trials", options.trials,
              "Draw so many combinations; without it, all of them are tried (ranges are always drawn)")
      .between(1, 10'000);
  verb.option("--seed", options.seed, "Of what is drawn (1)").between(0, 2'000'000'000);
  verb.option("--at-once", options.at_once,
              "Trainings at a time, which share the cores; without it, one for each core if there is memory")
      .between(1, bench::kMostTrainings);
  add_overrides(verb, options.settings);
  verb.option("--output", arguments->output,
              "Folder for the runs; without it, a new folder runs/sweep-JOB-N");
  verb.flag("--resume", options.resume, "Go on with the trials in the folder, with the options of before");
  add_result_files(verb, arguments->files);
  verb.footer(
      "Examples:\n  telar sweep examples/mlp.yaml --vary optimizer.learning_rate=0.0003,0.001,0.003\n"
      "  telar sweep examples/mlp.yaml --vary optimizer.learning_rate=1e-4..0.1 --vary \"model.options.hidden=[64],[256],[256, 256]\" --trials 20\n"
      "Trials are compared by their best epoch, by the metric training.early_stopping.metric of the validation samples.\n"
      "A range that spans a factor of ten or more is drawn by its logarithm; one between whole numbers gives whole\n"
      "numbers. Ctrl-C ends the current trainings with checkpoints and keeps the results so far; --resume goes on.");
  verb.action([arguments] { return sweep(*arguments); });
}

}  // namespace telar::cli
