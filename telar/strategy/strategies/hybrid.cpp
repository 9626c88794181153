#include "telar/core/error.h"
#include "telar/strategy/buckets.h"
#include "telar/strategy/stage_program.h"
#include "telar/strategy/synchronise_batch_norm.h"
#include "telar/strategy/worker_grid.h"

namespace telar {

namespace {

WorkerGrid grid_of(const Attributes& options) {
  return {options.integer("data"), options.integer("model"), options.integer("stages")};
}

int64_t micro_batches_of(const Attributes& options, const TrainingStep& step) {
  const WorkerGrid grid = grid_of(options);
  return micro_batches_of(options, grid.stages, step, grid.data * grid.model);
}

/// Groups of workers divide layers among themselves, or form pipelines, or both: pipelines whose stages are
/// groups that divide their layers. The groups are data parallel.
Program hybrid_program(const TrainingStep& step, const Cluster& cluster, const Attributes& options,
                       const std::vector<OperationCost>& costs) {
  const WorkerGrid grid = grid_of(options);
  if (grid.stages == 1) return grid_program("hybrid", step, cluster, grid, options);
  return stage_program("hybrid", step, cluster, grid,
                       {.micro_batches = micro_batches_of(options, step),
                        .bucket_bytes = bucket_bytes(options),
                        .split = split_rules(options.texts("split"))},
                       costs);
}

void check_hybrid(const Attributes& options) {
  const int64_t model = options.integer("model");
  const int64_t stages = options.integer("stages");
  if (stages == 1 && model == 1) {
    throw OptionError(
        "model", "strategy.model and strategy.stages are both 1, so nothing is divided; choose 'mirrored'");
  }
  check_division(options);
  if (stages == 1) return;
  if (synchronises_batch_norm(options)) {
    throw OptionError(
        "batch_norm",
        "strategy.batch_norm is synchronised, but the statistics of stages are those of each micro-batch, because its backward pass begins before the next ones arrive; set local");
  }
  if (model == 1 && !options.texts("split").empty())
    throw OptionError("split",
                      "strategy.split divides layers among the workers of strategy.model, which is 1");
}

}  // namespace

void register_hybrid(StrategyRegistry& registry) {
  StrategyType type;
  type.name = "hybrid";
  type.summary =
      "data parallel over groups of workers, each of which divides layers among its workers, or is a pipeline, or a pipeline of such groups";
  type.worker = "worker";
  type.count = "data";
  type.keeps_parts = true;
  type.on_gpus = false;
  type.options = {
      {.name = "data",
       .fallback = int64_t{2},
       .rule = {.least = 1, .most = 1024},
       .help = "Number of groups, in all processes together, that train on different samples."},
      {.name = "model",
       .fallback = int64_t{2},
       .rule = {.least = 1, .most = 1024},
       .help = "Number of workers of a group, or of a stage of it, among which a layer is divided."},
      {.name = "stages",
       .fallback = int64_t{1},
       .rule = {.least = 1, .most = 1024},
       .help = "Number of stages of a group; with several, it is a pipeline."},
      micro_batches_option()};
  for (Option& option : division_options()) type.options.push_back(std::move(option));
  type.workers = [](const Attributes& options) {
    const WorkerGrid grid = grid_of(options);
    return Workers{.count = grid.workers(), .of_all_processes = true, .shares = grid.data * grid.model};
  };
  type.rewrite = hybrid_program;
  type.measured_micro_batches = [](const TrainingStep& step, const Cluster&, const Attributes& options) {
    return grid_of(options).stages > 1 ? micro_batches_of(options, step) : 0;
  };
  type.check = [](const Attributes& options, int) { check_hybrid(options); };
  registry.add(std::move(type));
}

}  // namespace telar
