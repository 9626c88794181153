#include "telar/strategy/server_side.h"

namespace telar {

namespace {

class SyncPs final : public Strategy {
 public:
  explicit SyncPs(StrategyOptions options) : options_(std::move(options)) {}
  std::string name() const override { return "sync_ps"; }

  Program rewrite(const TrainingStep& step, const Cluster& cluster) const override {
    return server_program(name(), step, cluster,
                          {Action::compute_gradient, Action::push_gradient, Action::pull}, Graph(),
                          make_server_side(step, step.update, cluster, options_.place, true));
  }

 private:
  StrategyOptions options_;
};

}  // namespace

std::unique_ptr<Strategy> make_sync_ps(const StrategyOptions& options) {
  return std::make_unique<SyncPs>(options);
}

}  // namespace telar
