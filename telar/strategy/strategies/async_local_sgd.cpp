#include "telar/strategy/server_side.h"

namespace telar {

namespace {

Cooperation free_with_averages(const Attributes& options) {
  return free_within_staleness(options, options.integer("average_every"));
}

/// Each worker trains independently, with its own optimizer and at its own pace. Every k steps it pushes how
/// far it has come since its last pull, Δ = xₚ − xᵢ, and the servers apply it on arrival: m ← μm + Δ,
/// x ← x − lr·m. Then it pulls x (Liu et al., Asynchronous Local-SGD Training for Language Modeling, 2024).
Program async_local_sgd_program(const TrainingStep& step, const Cluster& cluster, const Attributes& options,
                                const std::vector<OperationCost>& /*costs*/) {
  return averaging_program("async_local_sgd", step, cluster, options);
}

}  // namespace

void register_async_local_sgd(StrategyRegistry& registry) {
  std::vector<Option> options = averaging_options();
  options.push_back(staleness_option());
  StrategyType type = server_strategy(
      "async_local_sgd",
      "workers train on their own, and the servers apply each worker's progress on arrival every few steps",
      free_with_averages, std::move(options), check_averaging);
  type.rewrite = async_local_sgd_program;
  registry.add(std::move(type));
}

}  // namespace telar
