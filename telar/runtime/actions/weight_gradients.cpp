#include "telar/runtime/action.h"
#include "telar/runtime/pipeline_stage.h"

namespace telar {

namespace {

class WeightGradients final : public Action {
 public:
  WeightGradients(const ScheduledAction& scheduled, StepContext& context)
      : stage_(required_stage(scheduled, context)) {}

  void run(StepContext& context) override {
    context.computing([&] { compute_again(context); });
  }
  void compute_again(StepContext& /*context*/) override { stage_.weight_gradients(); }

 private:
  PipelineStage& stage_;
};

}  // namespace

void register_weight_gradients(ActionRegistry& registry) {
  registry.add<WeightGradients>(action::kWeightGradients);
}

}  // namespace telar
