#include "telar/strategy/worker_grid.h"

namespace telar {

namespace {

/// Layers are divided among all workers (Shoeybi et al., "Megatron-LM", 2019); the other layers are data
/// parallel.
Program tensor_program(const TrainingStep& step, const Cluster& cluster, const Attributes& options,
                       const std::vector<OperationCost>& /*costs*/) {
  return grid_program("tensor", step, cluster, {.data = 1, .model = options.integer("ways")}, options);
}

}  // namespace

void register_tensor(StrategyRegistry& registry) {
  StrategyType type;
  type.name = "tensor";
  type.summary = "layers with many weights are divided among the workers, which have a share of every batch";
  type.worker = "worker";
  type.count = "ways";
  type.keeps_parts = true;
  type.on_gpus = false;
  type.options = {{.name = "ways",
                   .fallback = int64_t{2},
                   .rule = {.least = 2, .most = 1024},
                   .help = "Number of workers, in all processes together, among which a layer is divided."}};
  for (Option& option : division_options()) type.options.push_back(std::move(option));
  type.workers = [](const Attributes& options) {
    const int64_t ways = options.integer("ways");
    return Workers{.count = ways, .of_all_processes = true, .shares = ways};
  };
  type.rewrite = tensor_program;
  type.check = [](const Attributes& options, int) { check_division(options); };
  registry.add(std::move(type));
}

}  // namespace telar
