#include "telar/bench/pipeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iostream>
#include <memory>

#include "telar/bench/workloads.h"
#include "telar/cli/bench.h"
#include "telar/cli/experiment.h"

namespace telar::cli {

namespace {

struct PipelineArguments {
  bench::PipelineOptions options;
  ResultFiles files;
};

int run(const PipelineArguments& arguments) {
  std::cerr << "measuring operations, then steps …\n";
  publish(bench::measure_pipeline(arguments.options), arguments.files);
  return 0;
}

}  // namespace

void add_bench_pipeline(Verb& bench) {
  auto arguments = std::make_shared<PipelineArguments>();
  bench::PipelineOptions& options = arguments->options;
  Verb verb = bench.subverb(
      "pipeline", "Training steps of a pipeline compared with one device, and the pipeline's bubble");
  verb.option("--workload", options.workload,
              fmt::format("Workload: {} (resnet34_7x7)", fmt::join(bench::workload_names(), ", ")));
  verb.option("--batch", options.batch, "Samples per step (64)");
  verb.option("--stages", options.stages, "Stages, each on its own cores (2)");
  verb.option("--micro-batches", options.micro_batches, "Micro-batches per batch (8)");
  verb.option("--threads", options.threads, "Threads of each stage, and of the single device (1)");
  verb.option("--rounds", options.rounds, "Rounds, each with the single device and the pipeline in turn (5)");
  verb.option("--seconds", options.seconds, "Seconds per measurement in a round (2)");
  add_result_files(verb, arguments->files);
  verb.footer("Example:\n  telar bench pipeline --workload convnet --stages 3 --threads 2");
  verb.action([arguments] { return run(*arguments); });
}

}  // namespace telar::cli
