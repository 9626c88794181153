#include "telar/core/error.h"
#include "telar/strategy/buckets.h"
#include "telar/strategy/strategy.h"
#include "telar/strategy/synchronise_batch_norm.h"

namespace telar {

namespace {

class Mirrored final : public Strategy {
 public:
  explicit Mirrored(const StrategyOptions& options) : options_(options) {}
  std::string name() const override { return "mirrored"; }

  Program rewrite(const TrainingStep& step, const Cluster& cluster) const override {
    const auto local = static_cast<int>(cluster.devices.size());
    const int replicas = local * cluster.processes;
    if (replicas < 1) throw user_error("strategy 'mirrored' needs at least 1 replica");
    Program program{
        name(), {}, {}, step.update, step.evaluation, step.prediction, in_gradient_order(step), step.metrics};
    program.buckets = make_buckets(program.parameters, step.gradient, options_.bucket_bytes);
    Graph gradient = options_.batch_norm == BatchNormMode::synchronised
                         ? synchronise_batch_norm(step.gradient, replicas)
                         : step.gradient;
    gradient = insert_bucket_reductions(gradient, program.buckets);
    for (int r = 0; r < local; ++r) {
      program.workers.push_back({r,
                                 gradient,
                                 {Action::compute_gradient, Action::finish_exchange, Action::exchange_metrics,
                                  Action::exchange_norm, Action::update_shard, Action::wait_for_all}});
    }
    return program;
  }

 private:
  StrategyOptions options_;
};

}  // namespace

std::unique_ptr<Strategy> make_mirrored(const StrategyOptions& options) {
  return std::make_unique<Mirrored>(options);
}

}  // namespace telar
