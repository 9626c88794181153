#include "telar/io/payload.h"
#include "telar/runtime/action.h"

namespace telar {

namespace {

class PushGradient final : public Action {
 public:
  PushGradient(const ScheduledAction& scheduled, StepContext& context)
      : pending_(required_push(scheduled, context)),
        form_{payload_number(scheduled.payload), scheduled.share} {
    if (scheduled.every > 1) pending_.accrue_gradients();
  }

  void run(StepContext& context) override {
    if (!context.step().result.finite) return;
    context.notes().pulled =
        pending_.push_gradients(context.is_due(action::kPull), context.gradients().arena(), form_,
                                context.request().inputs, context.step().result);
  }

 private:
  PendingPush& pending_;
  ServerExchange::Form form_;
};

}  // namespace

void register_push_gradient(ActionRegistry& registry) { registry.add<PushGradient>(action::kPushGradient); }

}  // namespace telar
