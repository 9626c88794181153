#pragma once

#include <cstdint>
#include <memory>

#include "telar/graph/program.h"
#include "telar/runtime/server_exchange.h"
#include "telar/runtime/session.h"
#include "telar/runtime/shared_state.h"

namespace telar {

/// What a worker with parameter servers has computed since its last push.
class PendingPush {
 public:
  /// `schedule`: the worker's. All references must outlive this object.
  PendingPush(const Program& program, const std::vector<ScheduledAction>& schedule, const StoreAccess& store,
              const Device& device, const StateMemory& home);

  /// Adds the gradients of a step over `samples` samples, an arena in the device's memory.
  void add(const std::byte* gradients, int64_t samples);
  bool empty() const { return batches_ == 0; }

  /// Pushes what was added, as `action` requires, and records the outcome in `result`. With `then_pull`, also
  /// pulls the servers' parameters. `gradients`: of the last step.
  void push(Action action, bool then_pull, const std::byte* gradients, const StepInputs& inputs,
            StepResult& result);
  void pull() { servers_.pull(home_.parameters->data()); }

 private:
  const ServerSide& program_;
  bool rounds_;
  const StoreAccess& store_;
  const Device& device_;
  const StateMemory& home_;
  ServerExchange servers_;
  std::unique_ptr<Memory> accrued_;  ///< gradients, when pushes are more than one step apart
  int64_t samples_ = 0;
  int64_t batches_ = 0;
};

}  // namespace telar
