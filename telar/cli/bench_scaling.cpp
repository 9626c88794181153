#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "telar/bench/scaling.h"
#include "telar/cli/bench.h"
#include "telar/cli/experiment.h"
#include "telar/cli/options.h"
#include "telar/cli/sweep_progress.h"
#include "telar/observe/stop_request.h"

namespace telar::cli {

namespace {

struct ScalingArguments {
  bench::ScalingOptions options;
  std::string output;
  ResultFiles files;
};

int scaling(ScalingArguments arguments) {
  const StopRequest stop(kExperimentStops);
  bench::ScalingOptions& options = arguments.options;
  options.program = std::filesystem::read_symlink("/proc/self/exe").string();
  for (std::string& mixing : options.mixing)
    if (mixing == "by-label") mixing = "by_label";
  options.folder = experiment_folder(arguments.output, "scaling");
  SweepProgress progress;
  bench::SweepWatch watch = watch_sweep(
      progress, [&stop] { return stop.requested(); }, options.folder);
  watch.planned = [&options](size_t trainings) {
    std::cerr << fmt::format(
        "{} trainings, each until an accuracy of {} or the job's last epoch; an estimate of the time follows after the first. Ctrl-C ends the experiment and keeps the results so far.\n",
        trainings, options.target);
  };
  const bench::Result result = bench::measure_scaling(options, watch);
  publish_runs(result, arguments.files, options.folder);
  return stop.requested() ? 128 + stop.signal_number() : 0;
}

}  // namespace

void add_bench_scaling(Verb& bench) {
  auto arguments = std::make_shared<ScalingArguments>();
  bench::ScalingOptions& options = arguments->options;
  Verb verb = bench.subverb(
      "scaling", "Time to an accuracy, by number of workers and parameter servers, and by batch size");
  verb.option("JOB", options.job, "A job file; without it, an MLP on 10,000 images of Fashion-MNIST");
  verb.option("--workers", options.workers, "Numbers of workers, each with one thread (1,2,4,8)")
      .comma_separated();
  verb.option("--servers", options.servers, "Numbers of parameter servers (1,2)").comma_separated();
  verb.option("--batches", options.batches, "Batch sizes in samples (50,100,500,1000)").comma_separated();
  verb.option(
          "--mixing", options.mixing,
          "How samples are mixed: shuffled; by-label, so that each worker's pieces hold few labels; or both (shuffled)")
      .comma_separated()
      .one_of({"shuffled", "by-label"});
  verb.option("--strategy", options.strategy, "A strategy with parameter servers (downpour)");
  verb.option("--target", options.target, "Accuracy to reach on the validation samples (0.82)");
  add_overrides(verb, options.settings);
  verb.option("--output", arguments->output, "Folder for the runs; without it, a new folder runs/scaling-N");
  add_result_files(verb, arguments->files);
  verb.footer(
      "Examples:\n  telar bench scaling\n"
      "  telar bench scaling --workers 1,2 --servers 1 --batches 50,500 --mixing shuffled,by-label --target 0.82\n"
      "  telar bench scaling examples/fashion_mnist.yaml --strategy sync_ps --workers 1,2 --set training.epochs=4");
  verb.action([arguments] { return scaling(*arguments); });
}

}  // namespace telar::cli
