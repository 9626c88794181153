#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "telar/graph/program.h"

namespace telar {

/// What a worker exchanges in a step, in order, as its program describes it.
struct StepEvent {
  enum class Kind : uint8_t {
    meets,     ///< takes part in an exchange of its group, and waits for it
    starts,    ///< takes part in a sum of its group, and goes on
    finishes,  ///< waits for all sums that it has started
    sends,     ///< lets another stage of its pipeline go on; does not wait
    receives,  ///< waits for what another stage sends
    stores     ///< exchanges with servers
  };
  Kind kind;
  std::string what;          ///< "bucket 2", "all_gather_samples of layer 'fc1'", "%28 of micro-batch 3"
  std::string partner = {};  ///< the group, or the store
  int64_t stage = 0;         ///< of sends and receives: the other stage
  double sums = 0;           ///< bytes that the group sums, or gathers twice of
  double sends = 0;          ///< bytes that the worker sends to the stage, or to each other member
};

/// The events of a step of this worker in a phase, in which everything is due that is done every few steps.
/// Throws Error (run) for an action whose exchanges are not known, and for one whose bucket the program does
/// not have.
std::vector<StepEvent> step_events(const Program& program, int64_t worker, size_t phase = 0);

}  // namespace telar
