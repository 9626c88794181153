#include "telar/runtime/action.h"

namespace telar {

namespace {

class PushDifference final : public Action {
 public:
  PushDifference(const ScheduledAction& scheduled, StepContext& context)
      : pending_(required_push(scheduled, context)) {}

  void run(StepContext& context) override {
    if (!context.step().result.finite) return;
    context.notes().pulled = pending_.push_differences(context.is_due(action::kPull),
                                                       context.request().inputs, context.step().result);
  }

 private:
  PendingPush& pending_;
};

}  // namespace

void register_push_difference(ActionRegistry& registry) {
  registry.add<PushDifference>(action::kPushDifference);
}

}  // namespace telar
