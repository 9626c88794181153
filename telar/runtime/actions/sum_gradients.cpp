#include "telar/runtime/action.h"

namespace telar {

namespace {

class SumGradients final : public Action {
 public:
  SumGradients(const ScheduledAction& /*scheduled*/, StepContext& /*context*/) {}

  void run(StepContext& context) override {
    context.communicating("starts sums", [&] { context.gradients().start_all(); });
  }
  void compute_again(StepContext& context) override { run(context); }
};

}  // namespace

void register_sum_gradients(ActionRegistry& registry) { registry.add<SumGradients>(action::kSumGradients); }

}  // namespace telar
