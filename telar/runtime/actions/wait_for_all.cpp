#include "telar/runtime/action.h"

namespace telar {

namespace {

class WaitForAll final : public Action {
 public:
  WaitForAll(const ScheduledAction& scheduled, StepContext& context)
      : group_(context.group(scheduled.group)) {}

  void run(StepContext& context) override {
    // Members whose devices sum update everything themselves, so ahead there is nobody to wait for.
    if (group_ == nullptr || context.request().ahead) return;
    context.communicating("barrier", [&] { context.gradients().share_parameters(); });
  }
  bool may_run_ahead(const StepContext& /*context*/) const override { return sums_ahead(group_); }

 private:
  Group* group_;
};

}  // namespace

void register_wait_for_all(ActionRegistry& registry) { registry.add<WaitForAll>(action::kWaitForAll); }

}  // namespace telar
