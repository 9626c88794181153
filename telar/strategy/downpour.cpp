#include "telar/core/error.h"
#include "telar/strategy/server_side.h"

namespace telar {

namespace {

class Downpour final : public Strategy {
 public:
  explicit Downpour(StrategyOptions options) : options_(std::move(options)) {}
  std::string name() const override { return "downpour"; }

  Program rewrite(const TrainingStep& step, const Cluster& cluster) const override {
    if (options_.push_every < 1 || options_.fetch_every < 1) {
      throw user_error(
          "strategy 'downpour' pushes every {} steps and fetches every {}; both must be at least 1",
          options_.push_every, options_.fetch_every);
    }
    std::vector<ScheduledAction> schedule = {Action::compute_gradient};
    // Between two fetches a worker continues on its own; an update just before a fetch would be overwritten.
    if (options_.fetch_every > 1) schedule.emplace_back(Action::update_shard);
    schedule.emplace_back(Action::push_gradient, options_.push_every);
    schedule.emplace_back(Action::pull, options_.fetch_every);
    return server_program(name(), step, cluster, std::move(schedule),
                          options_.fetch_every > 1 ? plain_update(step) : Graph(),
                          make_server_side(step, step.update, cluster, options_.place, false));
  }

 private:
  StrategyOptions options_;
};

}  // namespace

std::unique_ptr<Strategy> make_downpour(const StrategyOptions& options) {
  return std::make_unique<Downpour>(options);
}

}  // namespace telar
