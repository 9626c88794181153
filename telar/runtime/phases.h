#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace telar {

/// How a replica spends its time in a training step. Every moment of a step belongs to one phase.
enum class StepPhase : uint8_t {
  load,      ///< waiting for the batch: the input pipeline was not ready
  copy,      ///< handing the batch to the device; a CPU reads it in the loader's memory
  forward,   ///< operations of the model, loss and metrics
  backward,  ///< operations of the gradients
  exchange,  ///< in the group while not computing: exposed communication
  wait,      ///< for replicas or stages that are slower or started later
  update,    ///< the optimizer
  other      ///< starting the replica's thread, compiling, collecting metrics
};
constexpr size_t kStepPhases = 8;

/// The phase's name, for example "forward".
const char* name_of(StepPhase phase);

/// Seconds of one training step by phase.
struct PhaseTimes {
  std::array<double, kStepPhases> seconds{};
  double step = 0;  ///< of the whole step by the clock: from the wait for its batch to its end

  double& operator[](StepPhase phase) { return seconds[static_cast<size_t>(phase)]; }
  double operator[](StepPhase phase) const { return seconds[static_cast<size_t>(phase)]; }
};

/// The mean over the replicas that made a step together.
PhaseTimes mean_of(std::span<const PhaseTimes> replicas);

/// The phases of a run's steps.
struct PhaseSummary {
  int64_t steps = 0;     ///< steps included
  int64_t left_out = 0;  ///< first steps, which compile kernels and fill caches
  PhaseTimes mean;
  PhaseTimes median;  ///< of each phase separately
};

/// Leaves out the first three steps, unless there are no others.
PhaseSummary summary_of(std::span<const PhaseTimes> steps);

/// The mean of several processes' summaries of the same steps.
PhaseSummary mean_of(std::span<const PhaseSummary> processes);

/// Conversion to and from a JSON object: "steps", "left_out", and under "mean_ms" and "median_ms" each phase
/// and "step".
std::string to_json(const PhaseSummary& summary);
PhaseSummary phase_summary_from_json(const std::string& text);

}  // namespace telar
