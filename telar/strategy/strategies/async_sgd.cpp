#include "telar/strategy/server_side.h"

namespace telar {

namespace {

Cooperation free_with_each_batch(const Attributes& options) { return free_within_staleness(options, 1); }

/// Asynchronous SGD on parameter servers. A worker computes the gradient g of a batch with its current
/// parameters. The servers apply their optimizer to it on arrival, p ← update(p, ĝ), and the worker fetches
/// the result. The updates by other workers since its last pull are the staleness of the gradient (Dean et
/// al., Large Scale Distributed Deep Networks, 2012; Recht et al., Hogwild, 2011).
Program async_sgd_program(const TrainingStep& step, const Cluster& cluster, const Attributes& options,
                          const std::vector<OperationCost>& /*costs*/) {
  return server_program("async_sgd", step, cluster,
                        {action::compute_gradient(), push_of(options), action::pull()}, Graph(),
                        make_server_side(step, step.update, cluster, placer_for(options, cluster.servers)));
}

}  // namespace

void register_async_sgd(StrategyRegistry& registry) {
  StrategyType type =
      server_strategy("async_sgd", "the servers apply each worker's gradient on arrival",
                      free_with_each_batch, with_payload_options({staleness_option()}), check_payload);
  type.rewrite = async_sgd_program;
  type.elastic = true;
  registry.add(std::move(type));
}

}  // namespace telar
