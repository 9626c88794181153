#include "telar/runtime/action.h"

#include <algorithm>

#include "telar/core/error.h"

namespace telar {

/// Generated from the names of the files in actions/ (cmake/Registry.cmake).
void register_all(ActionRegistry& registry);

std::unique_ptr<Action> make_action(const ScheduledAction& scheduled, StepContext& context) {
  static const ActionRegistry registry = [] {
    ActionRegistry all;
    register_all(all);
    return all;
  }();
  const auto found = std::ranges::find_if(registry.kinds(),
                                          [&](const auto& entry) { return entry.first == scheduled.kind; });
  if (found == registry.kinds().end()) {
    throw run_error("the schedule contains the action '{}', but no file of telar/runtime/actions defines it",
                    scheduled.kind.name());
  }
  return found->second(scheduled, context);
}

PipelineStage& required_stage(const ScheduledAction& scheduled, StepContext& context) {
  if (context.stage() != nullptr) return *context.stage();
  throw run_error("a replica cannot perform '{}', which is an action of a pipeline stage",
                  scheduled.kind.name());
}

PendingPush& required_push(const ScheduledAction& scheduled, StepContext& context) {
  PendingPush* pending = context.pending_push();
  if (pending != nullptr && scheduled.store == pending->store()) return *pending;
  throw run_error("the action '{}' exchanges with the store '{}', which this worker does not have",
                  scheduled.kind.name(), scheduled.store);
}

bool sums_ahead(const Group* group) { return group == nullptr || group->sums_on_device(); }

}  // namespace telar
