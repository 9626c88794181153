#pragma once

#include <cstdint>
#include <memory>

#include "telar/graph/program.h"
#include "telar/runtime/server_exchange.h"
#include "telar/runtime/session.h"
#include "telar/runtime/shared_state.h"

namespace telar {

/// What a worker has computed since its last push to a store. In rounds, these may be several parts of a
/// piece of work, computed one after another with the same parameters.
class PendingPush {
 public:
  /// All references must outlive this object.
  PendingPush(const Program& program, const StoreProgram& store, const StoreAccess& access,
              const Device& device, const StateMemory& home);

  /// The name of its store.
  const std::string& store() const { return program_.name; }
  /// Call before the first step if gradients are pushed in some steps only: those of the others are kept.
  void accrue_gradients();
  /// Adds the gradients of a step over `samples` samples, an arena in the device's memory.
  void add(const std::byte* gradients, int64_t samples);

  /// Pushes the gradients that were added since the last push, and records the outcome in `result`. With
  /// `then_pull`, also pulls the servers' parameters. `gradients`: of the last step. In rounds, it keeps them
  /// instead while other parts follow. Returns whether a pull that is due is done, or would be wrong.
  bool push_gradients(bool then_pull, const std::byte* gradients, const ServerExchange::Form& form,
                      const StepInputs& inputs, StepResult& result);
  /// As push_gradients, but pushes samples × (parameters as last pulled − parameters).
  bool push_differences(bool then_pull, const StepInputs& inputs, StepResult& result);
  void pull() { servers_.pull(home_.parameters->data()); }

 private:
  /// Settings of a push whose samples count as `samples`.
  ServerExchange::Terms terms(float samples, bool then_pull, const StepInputs& inputs) const;
  /// Asks for the round of the push. Returns false if there is none to push to now, and records that in
  /// `result`. Calls keep() if what is computed is to be pushed later.
  template <typename Keep>
  bool enters_round(ServerExchange::Terms& terms, const StepInputs& inputs, const Keep& keep,
                    StepResult& result);
  void clear();
  void pushed(const StoreReport& report, StepResult& result);

  const StoreProgram& program_;
  bool rounds_;
  const StoreAccess& access_;
  const Device& device_;
  const StateMemory& home_;
  ServerExchange servers_;
  std::unique_ptr<Memory>
      accrued_;  ///< means of batches' gradients, when pushes are more than one step apart
  int64_t samples_ = 0;
  int64_t means_ = 0;    ///< of batches, in accrued_
  int64_t of_part_ = 0;  ///< samples of the present part
};

}  // namespace telar
