#include "telar/runtime/action.h"
#include "telar/runtime/averaging.h"

namespace telar {

namespace {

class AverageParameters final : public Action {
 public:
  AverageParameters(const ScheduledAction& /*scheduled*/, StepContext& /*context*/) {}

  void run(StepContext& context) override {
    average_parameters(context);
    context.step().averaged = true;
  }
};

}  // namespace

void register_average_parameters(ActionRegistry& registry) {
  registry.add<AverageParameters>(action::kAverageParameters);
}

}  // namespace telar
