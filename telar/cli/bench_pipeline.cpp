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
  Verb verb = bench.subverb("pipeline", "Training steps of a pipeline beside one device, and its bubble");
  verb.option("--workload", options.workload,
              fmt::format("{} (resnet34_7x7)", fmt::join(bench::workload_names(), ", ")));
  verb.option("--batch", options.batch, "Samples of a step (64)");
  verb.option("--stages", options.stages, "Each on cores of its own (2)");
  verb.option("--micro-batches", options.micro_batches, "Into which the batch is cut (8)");
  verb.option("--threads", options.threads, "Of each stage, and of single (1)");
  verb.option("--rounds", options.rounds, "Of single and pipeline in turn (5)");
  verb.option("--seconds", options.seconds, "Of each in a round (2)");
  add_result_files(verb, arguments->files);
  verb.footer("Example:\n  telar bench pipeline --workload convnet --stages 3 --threads 2");
  verb.action([arguments] { return run(*arguments); });
}

}  // namespace telar::cli
