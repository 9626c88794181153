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
    if (context.home().update != Update::of_process) agree(context);
    context.communicating("barrier", [&] { context.gradients().share_parameters(); });
  }
  bool may_run_ahead(const StepContext& /*context*/) const override { return sums_ahead(group_); }

 private:
  /// A gradient that is not finite is seen only by the workers that update its piece or part.
  void agree(StepContext& context) {
    bool& finite = context.step().result.finite;
    context.communicating("barrier", [&] { finite = sum_over_members(*group_, finite ? 0 : 1) == 0; });
  }

  Group* group_;
};

}  // namespace

void register_wait_for_all(ActionRegistry& registry) { registry.add<WaitForAll>(action::kWaitForAll); }

}  // namespace telar
