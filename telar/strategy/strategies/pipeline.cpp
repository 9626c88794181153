#include "telar/core/error.h"
#include "telar/strategy/stage_program.h"

namespace telar {

namespace {

int64_t stages_in(const Cluster& cluster) {
  return static_cast<int64_t>(cluster.devices.size()) * cluster.processes;
}

/// Pipeline parallelism. The layers are cut into stages, one per device, and the batch into micro-batches,
/// which pass through the stages one after another: one forward, one backward (Narayanan et al., 2021).
/// Gradients are summed over the micro-batches. The gradient is that of the whole batch, except that batch
/// normalisation uses the statistics of each micro-batch. Its running averages equal those of mirrored with
/// one replica per micro-batch.
///
/// Each stage keeps the parameters that it trains.
Program pipelined(const TrainingStep& step, const Cluster& cluster, const Attributes& options,
                  const std::vector<OperationCost>& costs) {
  const int64_t stages = stages_in(cluster);
  if (stages == 0) throw user_error("strategy 'pipeline' needs at least 1 stage");
  const int64_t parts = micro_batches_of(options, stages, step);
  return stage_program("pipeline", step, cluster, {.stages = stages}, {.micro_batches = parts}, costs);
}

/// One stage needs no balance.
int64_t balanced_micro_batches(const TrainingStep& step, const Cluster& cluster, const Attributes& options) {
  return stages_in(cluster) > 1 ? micro_batches_of(options, stages_in(cluster), step) : 0;
}

}  // namespace

void register_pipeline(StrategyRegistry& registry) {
  registry.add(
      {.name = "pipeline",
       .summary =
           "the layers are divided into stages, and the micro-batches of a batch pass through them one after another",
       .worker = "stage",
       .count = "stages",
       .on_gpus = false,
       .options =
           {{.name = "stages",
             .fallback = int64_t{2},
             .rule = {.least = 1, .most = 1024},
             .help =
                 "Number of stages, in all processes together. The layers are divided so that the slowest stage is as fast as possible, by the measured time of each operation."},
            micro_batches_option()},
       .workers =
           [](const Attributes& options) {
             return Workers{.count = options.integer("stages"), .of_all_processes = true};
           },
       .rewrite = pipelined,
       .measured_micro_batches = balanced_micro_batches});
}

}  // namespace telar
