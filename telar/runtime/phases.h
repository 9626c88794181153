#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace telar {

/// What a replica's time in a training step goes into. Every moment of a step is one of them.
enum class StepPhase : uint8_t {
  load,      ///< waiting for the batch: the input pipeline was not ready
  copy,      ///< handing the batch to the device; a processor reads it where the loader has put it
  forward,   ///< operations of the model, loss and metrics
  backward,  ///< operations of the gradients
  exchange,  ///< in the group, when the replica does not compute: communication that nothing hides
  wait,      ///< for replicas or stages that are slower, or have begun later
  update,    ///< the optimizer
  other      ///< starting the replica's thread, compiling, collecting metrics
};
constexpr size_t kStepPhases = 8;

/// "forward".
const char* name_of(StepPhase phase);

/// Seconds of one training step by what they went into.
struct PhaseTimes {
  std::array<double, kStepPhases> seconds{};
  double step = 0;  ///< of the whole step, by clock: from the wait for its batch to its end

  double& operator[](StepPhase phase) { return seconds[static_cast<size_t>(phase)]; }
  double operator[](StepPhase phase) const { return seconds[static_cast<size_t>(phase)]; }
};

/// The mean of replicas that made one step together.
PhaseTimes mean_of(std::span<const PhaseTimes> replicas);

/// What the steps of a run went into.
struct PhaseSummary {
  int64_t steps = 0;     ///< that count
  int64_t left_out = 0;  ///< the first, which compile kernels and fill caches
  PhaseTimes mean;
  PhaseTimes median;  ///< of each phase by itself
};

/// The first three steps are left out, unless there are no more than these.
PhaseSummary summary_of(std::span<const PhaseTimes> steps);

/// The mean of summaries of the same steps.
PhaseSummary mean_of(std::span<const PhaseSummary> processes);

/// As a JSON object, and back: "steps", "left_out", and under "mean_ms" and "median_ms" each phase and "step".
std::string to_json(const PhaseSummary& summary);
PhaseSummary phase_summary_from_json(const std::string& text);

}  // namespace telar
