#include "telar/core/error.h"
#include "telar/strategy/strategy.h"

namespace telar {

namespace {

/// One device computes the whole batch.
Program single_program(const TrainingStep& step, const Cluster& cluster, const Attributes& /*options*/,
                       const std::vector<OperationCost>& /*costs*/) {
  if (cluster.devices.size() != 1) {
    throw user_error("strategy 'single' runs on one device, not {}; choose 'mirrored'",
                     cluster.devices.size());
  }
  if (cluster.processes != 1) {
    throw user_error("strategy 'single' trains in one process, not {}; choose 'mirrored'", cluster.processes);
  }
  return sequential_program(step);
}

}  // namespace

void register_single(StrategyRegistry& registry) {
  registry.add({.name = "single", .summary = "one device", .worker = "device", .rewrite = single_program});
}

}  // namespace telar
