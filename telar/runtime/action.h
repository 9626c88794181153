#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "telar/graph/actions.h"
#include "telar/runtime/step_context.h"

namespace telar {

/// An action of a worker's schedule. All methods are called on the worker's own thread.
class Action {
 public:
  virtual ~Action() = default;

  /// Does the action in the step that `context` is making. In a step that runs ahead (StepRequest::ahead) it
  /// only queues work on the device.
  virtual void run(StepContext& context) = 0;
  /// Whether the action can be queued ahead: it needs no result on the host. A worker runs ahead if all
  /// actions of its schedule can.
  virtual bool may_run_ahead(const StepContext& /*context*/) const { return false; }
  /// Of an action that computes gradients: computes them again, without consequences, to find out where a NaN
  /// comes from or how long the operations take.
  virtual void compute_again(StepContext& /*context*/) {}
};

/// Where the files of actions/ add their actions.
class ActionRegistry {
 public:
  using Make = std::function<std::unique_ptr<Action>(const ScheduledAction&, StepContext&)>;

  void add(ActionKind kind, Make make) { kinds_.emplace_back(kind, std::move(make)); }
  /// A class with a constructor (const ScheduledAction&, StepContext&), which throws Error (run) if the
  /// worker cannot perform the action.
  template <typename Kind>
  void add(ActionKind kind) {
    add(kind, [](const ScheduledAction& scheduled, StepContext& context) {
      return std::make_unique<Kind>(scheduled, context);
    });
  }
  const std::vector<std::pair<ActionKind, Make>>& kinds() const { return kinds_; }

 private:
  std::vector<std::pair<ActionKind, Make>> kinds_;
};

/// The action of this worker. `context` must outlive it. Throws Error (run) if there is no action of this
/// kind, or if the worker lacks what it needs.
std::unique_ptr<Action> make_action(const ScheduledAction& scheduled, StepContext& context);

/// The worker's stage, for an action of pipeline stages. Throws Error (run) if the worker is a replica.
PipelineStage& required_stage(const ScheduledAction& scheduled, StepContext& context);
/// What the worker has not pushed yet to the store that the action names. Throws Error (run) if the program
/// has no such store.
PendingPush& required_push(const ScheduledAction& scheduled, StepContext& context);
/// Whether the group can sum in a step that runs ahead: on the devices. `group`: null if the worker is its
/// only member.
bool sums_ahead(const Group* group);

}  // namespace telar
