#include "telar/runtime/action.h"
#include "telar/runtime/pipeline_stage.h"

namespace telar {

namespace {

class Forward final : public Action {
 public:
  Forward(const ScheduledAction& scheduled, StepContext& context)
      : stage_(required_stage(scheduled, context)),
        micro_batch_(static_cast<size_t>(scheduled.micro_batch.value())) {}

  void run(StepContext& context) override {
    context.computing([&] { compute_again(context); });
  }
  void compute_again(StepContext& /*context*/) override { stage_.forward(micro_batch_); }

 private:
  PipelineStage& stage_;
  size_t micro_batch_;
};

}  // namespace

void register_forward(ActionRegistry& registry) { registry.add<Forward>(action::kForward); }

}  // namespace telar
