#include "telar/runtime/action.h"
#include "telar/runtime/pipeline_stage.h"

namespace telar {

namespace {

class Receive final : public Action {
 public:
  Receive(const ScheduledAction& scheduled, StepContext& context)
      : stage_(required_stage(scheduled, context)),
        forward_(scheduled.kind == action::kReceiveForward),
        micro_batch_(static_cast<size_t>(scheduled.micro_batch.value())) {}

  void run(StepContext& context) override { compute_again(context); }
  void compute_again(StepContext& /*context*/) override { stage_.receive(forward_, micro_batch_); }

 private:
  PipelineStage& stage_;
  bool forward_;
  size_t micro_batch_;
};

}  // namespace

void register_receive(ActionRegistry& registry) {
  registry.add<Receive>(action::kReceiveForward);
  registry.add<Receive>(action::kReceiveBackward);
}

}  // namespace telar
