#include "telar/strategy/server_side.h"

namespace telar {

namespace {

Cooperation free_with_averages(const Attributes& options) {
  return free_within_staleness(options, options.integer("average_every"));
}

/// Each worker trains independently, with its own optimizer and at its own pace. Every k steps it pushes how
/// far it has come since its last pull, Δ = xₚ − xᵢ, and the servers apply it on arrival: m ← μm + Δ,
/// x ← x − lr·m. Then it pulls x (Liu et al., Asynchronous Local-SGD Training for Language Modeling, 2024).
class AsyncLocalSgd final : public Strategy {
 public:
  explicit AsyncLocalSgd(Attributes options) : options_(std::move(options)) {}

  Program rewrite(const TrainingStep& step, const Cluster& cluster,
                  const std::vector<OperationCost>& /*costs*/) const override {
    Program program = averaging_program("async_local_sgd", step, cluster, options_);
    program.cooperation = free_with_averages(options_);
    return program;
  }

 private:
  Attributes options_;
};

}  // namespace

void register_async_local_sgd(StrategyRegistry& registry) {
  std::vector<Option> options = averaging_options();
  options.push_back(staleness_option());
  StrategyType type = server_strategy(
      "async_local_sgd",
      "workers train on their own, and the servers apply each worker's progress on arrival every few steps",
      std::move(options), check_averaging);
  type.make = [](const Attributes& given) { return std::make_unique<AsyncLocalSgd>(given); };
  type.cooperation = free_with_averages;
  registry.add(std::move(type));
}

}  // namespace telar
