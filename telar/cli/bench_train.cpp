#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <memory>

#include "telar/bench/train_sweep.h"
#include "telar/cli/bench.h"
#include "telar/cli/experiment.h"
#include "telar/cli/options.h"
#include "telar/observe/stop_request.h"

namespace telar::cli {

namespace {

struct TrainSweepArguments {
  bench::TrainSweepOptions options;
  std::string folder;
  ResultFiles files;
};

int run(TrainSweepArguments arguments) {
  const StopRequest stop(kExperimentStops);
  bench::TrainSweepOptions& options = arguments.options;
  if (options.epochs > 0) options.steps = 0;
  options.program = std::filesystem::read_symlink("/proc/self/exe").string();
  options.folder = arguments.folder;
  options.stop_requested = [&stop] { return stop.requested(); };
  options.say = [](const std::string& text) { std::cerr << text << " …\n"; };
  publish(measure_training(options), arguments.files);
  return stop.requested() ? 128 + stop.signal_number() : 0;
}

}  // namespace

void add_bench_train(Verb& bench) {
  auto arguments = std::make_shared<TrainSweepArguments>();
  bench::TrainSweepOptions& options = arguments->options;
  options.environments = {"cpu:1", "cpu:all", "replicas:2", "mpi:2"};
  Verb verb =
      bench.subverb("train", "The same training on one core, on all cores, in replicas and in processes");
  verb.option("--model", options.model, "A model of the zoo, see docs/job.md (resnet34)");
  verb.option("--data", options.data, "A source of samples, see docs/job.md (fashion-mnist)");
  const Option steps =
      verb.option("--steps", options.steps, "Train for one pass over this many batches (100)")
          .between(4, 100'000'000);
  verb.option("--epochs", options.epochs,
              "Train for this many passes over all training samples, instead of --steps")
      .between(1, 1'000'000)
      .excludes(steps);
  verb.option("--batch", options.batch, "Samples per step, divided among all replicas (32)")
      .between(1, 16'777'216);
  verb.option("--precision", options.precisions,
              "f32, bf16, tf32 (only on GPUs), or several, as in f32,bf16 (f32)")
      .comma_separated()
      .one_of({"f32", "tf32", "bf16"});
  verb.option(
          "--environments", options.environments,
          "Environments to measure, one row each: cpu:N (N threads), cpu:all, replicas:N (in one process), mpi:N (processes), pipeline:N (stages), gpu, gpu:N, gpu+cpu (cpu:1,cpu:all,replicas:2,mpi:2)")
      .comma_separated();
  add_overrides(verb, options.settings);
  verb.option("--keep", arguments->folder, "Keep the runs, with their traces, in this folder");
  add_result_files(verb, arguments->files);
  verb.footer(
      "For each row, a separate process trains from the same weights on the same samples. A row reports images per second, the\n"
      "phases of a step (docs/experiments.md), speed-up and efficiency, accuracy over time and at the end, peak memory, and\n"
      "energy where it can be read. With two cores the defaults take a minute or two; --epochs makes it longer. A row that\n"
      "cannot be measured here gives the reason. Ctrl-C ends the sweep and keeps the complete rows.\n"
      "Examples:\n"
      "  telar bench train\n"
      "  telar bench train --precision f32,bf16 --set model.options.stem=3x3 --steps 20 --html train.html\n"
      "  telar bench train --model convnet --epochs 2 --batch 128 --environments cpu:1,replicas:2,gpu");
  verb.action([arguments] { return run(*arguments); });
}

}  // namespace telar::cli
