#include "telar/runtime/action.h"
#include "telar/runtime/pipeline_stage.h"

namespace telar {

namespace {

class Send final : public Action {
 public:
  Send(const ScheduledAction& scheduled, StepContext& context)
      : stage_(required_stage(scheduled, context)),
        forward_(scheduled.kind == action::kSendForward),
        micro_batch_(static_cast<size_t>(scheduled.micro_batch.value())) {}

  void run(StepContext& context) override { compute_again(context); }
  void compute_again(StepContext& /*context*/) override { stage_.send(forward_, micro_batch_); }

 private:
  PipelineStage& stage_;
  bool forward_;
  size_t micro_batch_;
};

}  // namespace

void register_send(ActionRegistry& registry) {
  registry.add<Send>(action::kSendForward);
  registry.add<Send>(action::kSendBackward);
}

}  // namespace telar
