#include "telar/bench/pipeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iostream>
#include <memory>

#include "telar/bench/workloads.h"
#include "telar/cli/bench.h"
#include "telar/cli/table.h"

namespace telar::cli {

namespace {

using bench::PipelineFigures;
using bench::PipelineOptions;

std::vector<std::string> row(const std::string& name, const bench::Times& times, int64_t samples,
                             double single) {
  return {name, fmt::format("{:.1f}", times.median()), fmt::format("{:.1f}–{:.1f}", times.min(), times.max()),
          fmt::format("{:.1f}", 1e3 * static_cast<double>(samples) / times.median()),
          fmt::format("{:.2f}", 1e3 * static_cast<double>(samples) / times.median() / single)};
}

int print_figures(const PipelineOptions& options) {
  std::cerr << "measuring operations, then steps …\n";
  const PipelineFigures figures = bench::measure_pipeline(options);
  const int64_t micro_batch = (options.batch + options.micro_batches - 1) / options.micro_batches;
  const double single = 1e3 * static_cast<double>(options.batch) / figures.single.median();
  const std::string threads = fmt::format("{} thread{}", options.threads, options.threads == 1 ? "" : "s");
  std::cout << table_text(
      {{fmt::format("{}, batch {}", options.workload, options.batch), "median ms", "min–max", "images/s",
        "of single"},
       row(fmt::format("single, {}", threads), figures.single, options.batch, single),
       row(fmt::format("single, batches of {}", micro_batch), figures.micro_batch, micro_batch, single),
       row(fmt::format("pipeline, {} stages × {}, {} micro-batches", options.stages, threads,
                       options.micro_batches),
           figures.pipeline, options.batch, single)},
      1);
  const double limit = figures.batch_operations_ms / static_cast<double>(options.stages);
  std::cout << fmt::format(
      "\nBubble: {:.3f} measured; (p − 1) / (m + p − 1) = {:.3f}.\n"
      "The gradient's operations alone take {:.1f} ms over the whole batch and {:.1f} ms over the "
      "micro-batches, with {}: "
      "the pipeline cannot go below {:.1f} ms, and with these micro-batches not below {:.1f} ms.\n"
      "Processor time of a step, with waiting: {:.1f} ms single, {:.1f} ms pipeline.\nStages begin at {}.\n",
      figures.bubble.measured, figures.bubble.formula, figures.batch_operations_ms,
      figures.micro_batch_operations_ms, threads, limit,
      figures.micro_batch_operations_ms / static_cast<double>(options.stages), figures.single_processor_ms,
      figures.pipeline_processor_ms, figures.cuts);
  return 0;
}

}  // namespace

void add_bench_pipeline(CLI::App& bench, Action& action) {
  auto options = std::make_shared<PipelineOptions>();
  CLI::App* verb =
      bench.add_subcommand("pipeline", "Training steps of a pipeline beside one device, and its bubble");
  verb->add_option("--workload", options->workload,
                   fmt::format("{} (resnet34_7x7)", fmt::join(bench::workload_names(), ", ")));
  verb->add_option("--batch", options->batch, "Samples of a step (64)");
  verb->add_option("--stages", options->stages, "Each on cores of its own (2)");
  verb->add_option("--micro-batches", options->micro_batches, "Into which the batch is cut (8)");
  verb->add_option("--threads", options->threads, "Of each stage, and of single (1)");
  verb->add_option("--rounds", options->rounds, "Of single and pipeline in turn (5)");
  verb->add_option("--seconds", options->seconds, "Of each in a round (2)");
  verb->footer("Example:\n  telar bench pipeline --workload convnet --stages 3 --threads 2");
  verb->callback([options, &action] { action = [options] { return print_figures(*options); }; });
}

}  // namespace telar::cli
