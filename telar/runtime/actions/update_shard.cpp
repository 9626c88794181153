#include <cmath>

#include "telar/runtime/action.h"
#include "telar/runtime/pipeline_stage.h"

namespace telar {

namespace {

class UpdateShard final : public Action {
 public:
  UpdateShard(const ScheduledAction& scheduled, StepContext& context)
      : group_(context.group(scheduled.group)),
        bindings_(context.update_bindings()),
        ahead_(context.update_bindings()) {
    ahead_.loss = context.metrics().on_device();
    ahead_.non_finite = context.metrics().non_finite();
  }

  void run(StepContext& context) override {
    if (context.request().ahead) {
      context.finish_sums();
      update(context, ahead_, 0);
      return;
    }
    bool& finite = context.step().result.finite;
    // Every member sees the same summed loss, so either all of them update or none.
    finite = std::isfinite(context.metrics().values()[0]);
    if (!finite || context.request().samples == 0) return;
    std::optional<double>& squares = context.notes().sum_of_squares;
    if (context.updater().clips() && !squares) squares = context.sum_of_squares(group_);
    finite = update(context, bindings_, squares.value_or(0));
    context.did(StepPhase::update, "update");
  }

  bool may_run_ahead(const StepContext& context) const override {
    return sums_ahead(group_) && !context.updater().clips();
  }

 private:
  /// Returns false if a gradient was not finite.
  static bool update(StepContext& context, const UpdateBindings& bindings, double sum_of_squares) {
    if (PipelineStage* stage = context.stage()) return stage->update(sum_of_squares);
    bool finite = true;
    for (const auto& [begin, end] : context.gradients().owned_ranges())
      finite = context.update(bindings, sum_of_squares, begin, end) && finite;
    return finite;
  }

  Group* group_;
  UpdateBindings bindings_;
  UpdateBindings ahead_;  ///< the device itself checks the loss and the gradients
};

}  // namespace

void register_update_shard(ActionRegistry& registry) { registry.add<UpdateShard>(action::kUpdateShard); }

}  // namespace telar
