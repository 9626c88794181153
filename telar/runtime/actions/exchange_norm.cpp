#include "telar/runtime/action.h"

namespace telar {

namespace {

class ExchangeNorm final : public Action {
 public:
  ExchangeNorm(const ScheduledAction& scheduled, StepContext& context)
      : group_(context.group(scheduled.group)) {}

  void run(StepContext& context) override {
    if (context.updater().clips()) context.notes().sum_of_squares = context.sum_of_squares(group_);
  }
  bool may_run_ahead(const StepContext& context) const override { return !context.updater().clips(); }

 private:
  Group* group_;
};

}  // namespace

void register_exchange_norm(ActionRegistry& registry) { registry.add<ExchangeNorm>(action::kExchangeNorm); }

}  // namespace telar
