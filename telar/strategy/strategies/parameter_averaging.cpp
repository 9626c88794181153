#include "telar/strategy/server_side.h"

namespace telar {

namespace {

Cooperation rounds_of_all(const Attributes& options) {
  return {.kind = Cooperation::Kind::rounds, .work_steps = options.integer("average_every")};
}

/// Each worker trains independently, with its own optimizer. Every k steps the servers' parameters x move
/// towards the mean of the workers' xᵢ, each weighted by its number of samples: Δ = Σ nᵢ(x − xᵢ)/Σ nᵢ, then
/// SGD on Δ: m ← μm + Δ, x ← x − lr·m. With lr 1 and μ 0, x is the mean (McMahan et al., FedAvg, 2017; Stich,
/// Local SGD, 2019). Otherwise Δ is the pseudo-gradient of an outer SGD or Nesterov step (Reddi et al.,
/// Adaptive Federated Optimization, 2021; Douillard et al., DiLoCo, 2023).
Program parameter_averaging_program(const TrainingStep& step, const Cluster& cluster,
                                    const Attributes& options, const std::vector<OperationCost>& /*costs*/) {
  return averaging_program("parameter_averaging", step, cluster, options);
}

}  // namespace

void register_parameter_averaging(StrategyRegistry& registry) {
  StrategyType type = server_strategy(
      "parameter_averaging", "workers train on their own and average their parameters every few steps",
      rounds_of_all, averaging_options(), check_averaging);
  type.rewrite = parameter_averaging_program;
  registry.add(std::move(type));
}

}  // namespace telar
