#include "telar/bench/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "telar/cli/experiment.h"
#include "telar/cli/options.h"
#include "telar/cli/sweep_progress.h"
#include "telar/cli/verbs.h"
#include "telar/core/suggest.h"
#include "telar/observe/process.h"
#include "telar/observe/stop_request.h"

namespace telar::cli {

namespace {

struct CompareArguments {
  bench::CompareOptions options;
  std::string output;
  ResultFiles files;
};

int compare(CompareArguments arguments) {
  const StopRequest stop(kExperimentStops);
  bench::CompareOptions& options = arguments.options;
  options.program = std::filesystem::read_symlink("/proc/self/exe").string();
  options.folder = experiment_folder(arguments.output, "compare-" + options.job.stem().string());
  SweepProgress progress;
  const bench::Result result =
      bench::compare_strategies(options, watch_sweep(
                                             progress, [&stop] { return stop.requested(); }, options.folder));
  publish_runs(result, arguments.files, options.folder);
  return stop.requested() ? 128 + stop.signal_number() : 0;
}

}  // namespace

void add_compare(Verb& program) {
  auto arguments = std::make_shared<CompareArguments>();
  bench::CompareOptions& options = arguments->options;
  options.workers = std::max(2, available_threads());
  Verb verb = program.subverb("compare", "Trains a job under several strategies and recommends one of them");
  verb.option("JOB", options.job, "A job file (docs/job.md)").required();
  verb.option("--strategies", options.strategies,
              fmt::format("Strategies to compare, of {}; NAME:N has N workers (all strategies)",
                          one_of(bench::comparable_strategies())))
      .comma_separated();
  verb.option("--workers", options.workers,
              fmt::format("Replicas, stages or workers of a strategy that is given without :N ({})",
                          options.workers))
      .between(1, 1024);
  verb.option("--rounds", options.rounds, "Number of trainings per strategy, in turns (1)").between(1, 1000);
  add_overrides(verb, options.settings);
  verb.option("--output", arguments->output,
              "Folder for the runs; without it, a new folder runs/compare-JOB-N");
  add_result_files(verb, arguments->files);
  verb.footer(
      "Examples:\n  telar compare examples/mlp.yaml\n"
      "  telar compare examples/fashion_mnist.yaml --strategies single,mirrored:2,downpour:2,downpour:4 --rounds 3\n"
      "A key of the strategy (--set strategy.push_every=4) applies only to the strategies that have it.\nmpi is mirrored over as many processes, started by mpirun. Ctrl-C ends the current training and keeps the results\nso far.");
  verb.action([arguments] { return compare(*arguments); });
}

}  // namespace telar::cli
