#include "telar/runtime/action.h"

namespace telar {

namespace {

class Pull final : public Action {
 public:
  Pull(const ScheduledAction& scheduled, StepContext& context)
      : pending_(required_push(scheduled, context)) {}

  void run(StepContext& context) override {
    if (!context.notes().pulled) pending_.pull();
  }

 private:
  PendingPush& pending_;
};

}  // namespace

void register_pull(ActionRegistry& registry) { registry.add<Pull>(action::kPull); }

}  // namespace telar
