#include "telar/strategy/server_side.h"

namespace telar {

namespace {

class AsyncSgd final : public Strategy {
 public:
  explicit AsyncSgd(StrategyOptions options) : options_(std::move(options)) {}
  std::string name() const override { return "async_sgd"; }

  Program rewrite(const TrainingStep& step, const Cluster& cluster) const override {
    return server_program(name(), step, cluster,
                          {Action::compute_gradient, Action::push_gradient, Action::pull}, Graph(),
                          make_server_side(step, step.update, cluster, options_.place, false));
  }

 private:
  StrategyOptions options_;
};

}  // namespace

std::unique_ptr<Strategy> make_async_sgd(const StrategyOptions& options) {
  return std::make_unique<AsyncSgd>(options);
}

}  // namespace telar
