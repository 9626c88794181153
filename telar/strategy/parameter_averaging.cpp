#include "telar/core/error.h"
#include "telar/strategy/server_side.h"

namespace telar {

namespace {

class ParameterAveraging final : public Strategy {
 public:
  explicit ParameterAveraging(StrategyOptions options) : options_(std::move(options)) {}
  std::string name() const override { return "parameter_averaging"; }

  Program rewrite(const TrainingStep& step, const Cluster& cluster) const override {
    if (options_.average_every < 1) {
      throw user_error("strategy 'parameter_averaging' averages every {} steps; it must be at least 1",
                       options_.average_every);
    }
    ServerSide servers = make_server_side(
        step,
        sgd_of_everything(step, {.momentum = options_.outer_momentum, .nesterov = options_.outer_nesterov}),
        cluster, options_.place, true);
    servers.learning_rate = options_.outer_learning_rate;
    return server_program(name(), step, cluster,
                          {Action::compute_gradient,
                           Action::update_shard,
                           {Action::push_difference, options_.average_every},
                           {Action::pull, options_.average_every}},
                          step.update, std::move(servers));
  }

 private:
  StrategyOptions options_;
};

}  // namespace

std::unique_ptr<Strategy> make_parameter_averaging(const StrategyOptions& options) {
  return std::make_unique<ParameterAveraging>(options);
}

}  // namespace telar
