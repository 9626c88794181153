#include "telar/strategy/server_side.h"

namespace telar {

namespace {

Cooperation rounds_of_all(const Attributes& /*options*/) { return {.kind = Cooperation::Kind::rounds}; }

/// Each worker trains independently, with its own optimizer. Every k steps the servers' parameters x move
/// towards the mean of the workers' xᵢ, each weighted by its number of samples: Δ = Σ nᵢ(x − xᵢ)/Σ nᵢ, then
/// SGD on Δ: m ← μm + Δ, x ← x − lr·m. With lr 1 and μ 0, x is the mean (McMahan et al., FedAvg, 2017; Stich,
/// Local SGD, 2019). Otherwise Δ is the pseudo-gradient of an outer SGD or Nesterov step (Reddi et al.,
/// Adaptive Federated Optimization, 2021; Douillard et al., DiLoCo, 2023).
class ParameterAveraging final : public Strategy {
 public:
  explicit ParameterAveraging(Attributes options) : options_(std::move(options)) {}

  Program rewrite(const TrainingStep& step, const Cluster& cluster,
                  const std::vector<OperationCost>& /*costs*/) const override {
    const int64_t every = options_.integer("average_every");
    ServerSide servers = make_server_side(
        step,
        sgd_of_everything(
            step, {.momentum = options_.real("outer_momentum"), .nesterov = options_.flag("outer_nesterov")}),
        cluster, options_);
    servers.learning_rate = options_.real("outer_learning_rate");
    Program program = server_program("parameter_averaging", step, cluster,
                                     {Action::compute_gradient,
                                      Action::update_shard,
                                      {Action::push_difference, every},
                                      {Action::pull, every}},
                                     step.update, std::move(servers));
    program.cooperation = rounds_of_all(options_);
    return program;
  }

 private:
  Attributes options_;
};

}  // namespace

void register_parameter_averaging(StrategyRegistry& registry) {
  StrategyType type = server_strategy(
      "parameter_averaging", "workers train on their own and average their parameters every few steps",
      {{.name = "average_every",
        .fallback = int64_t{10},
        .rule = {.least = 1, .most = 1e9},
        .help = "Steps of each worker between two averages."},
       {.name = "outer_learning_rate",
        .fallback = 1.0,
        .rule = {.least = 0, .most = 1e6, .above_least = true},
        .help = "Learning rate of the step towards the workers' mean. 1 without momentum: the mean itself."},
       {.name = "outer_momentum",
        .fallback = 0.0,
        .rule = {.least = 0, .most = 1, .below_most = true},
        .help = "Momentum of the step towards the workers' mean."},
       {.name = "outer_nesterov", .fallback = false, .help = "Uses Nesterov momentum for that step."}});
  type.make = [](const Attributes& options) { return std::make_unique<ParameterAveraging>(options); };
  type.cooperation = rounds_of_all;
  type.check = [common = type.check](const Attributes& options, int servers) {
    common(options, servers);
    if (options.flag("outer_nesterov") && options.real("outer_momentum") == 0)
      throw OptionError("outer_nesterov",
                        "strategy.outer_nesterov requires momentum, but strategy.outer_momentum is 0");
  };
  registry.add(std::move(type));
}

}  // namespace telar
