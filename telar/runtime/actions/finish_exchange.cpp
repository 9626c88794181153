#include "telar/runtime/action.h"

namespace telar {

namespace {

class FinishExchange final : public Action {
 public:
  FinishExchange(const ScheduledAction& scheduled, StepContext& context)
      : group_(context.group(scheduled.group)) {}

  void run(StepContext& context) override {
    // Ahead, the device waits once for all sums, those of metrics included, before the first use of a sum.
    if (!context.request().ahead) context.finish_sums();
  }
  bool may_run_ahead(const StepContext& /*context*/) const override { return sums_ahead(group_); }
  void compute_again(StepContext& context) override { context.finish_sums(); }

 private:
  Group* group_;
};

}  // namespace

void register_finish_exchange(ActionRegistry& registry) {
  registry.add<FinishExchange>(action::kFinishExchange);
}

}  // namespace telar
