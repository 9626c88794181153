#include "telar/runtime/action.h"

namespace telar {

namespace {

class ExchangeMetrics final : public Action {
 public:
  ExchangeMetrics(const ScheduledAction& scheduled, StepContext& context)
      : group_(context.group(scheduled.group)) {}

  void run(StepContext& context) override {
    if (group_ == nullptr) return;
    StepMetrics& metrics = context.metrics();
    if (context.request().ahead)
      group_->start_reduce_scatter({metrics.on_device(), metrics.count()});
    else
      context.communicating("sum of metrics", [&] {
        group_->all_reduce(metrics.values());
        // All replicas of a process update, or none: the exchange may fail for some of them only.
        if (context.processes() != nullptr) group_->barrier();
      });
  }
  bool may_run_ahead(const StepContext& /*context*/) const override { return sums_ahead(group_); }

 private:
  Group* group_;
};

}  // namespace

void register_exchange_metrics(ActionRegistry& registry) {
  registry.add<ExchangeMetrics>(action::kExchangeMetrics);
}

}  // namespace telar
