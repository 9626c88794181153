#include "telar/core/error.h"
#include "telar/strategy/buckets.h"
#include "telar/strategy/strategy.h"

namespace telar {

namespace {

class Single final : public Strategy {
 public:
  std::string name() const override { return "single"; }

  Program rewrite(const TrainingStep& step, const Cluster& cluster) const override {
    if (cluster.devices.size() != 1) {
      throw user_error("strategy 'single' runs on one device, not {}; choose 'mirrored'",
                       cluster.devices.size());
    }
    if (cluster.processes != 1) {
      throw user_error("strategy 'single' trains in one process, not {}; choose 'mirrored'",
                       cluster.processes);
    }
    Program program{
        name(), {}, {}, step.update, step.evaluation, step.prediction, in_gradient_order(step), step.metrics};
    program.workers.push_back({0, step.gradient, {Action::compute_gradient, Action::update_shard}});
    return program;
  }
};

}  // namespace

std::unique_ptr<Strategy> make_single() { return std::make_unique<Single>(); }

}  // namespace telar
