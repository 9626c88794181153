#pragma once

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "telar/runtime/action.h"
#include "telar/runtime/averaging.h"
#include "telar/runtime/step_context.h"
#include "telar/runtime/steps_ahead.h"

namespace telar {

/// One worker of a program on its device: a replica, a pipeline stage, or a worker with parameter servers. It
/// runs the actions of its schedule in order. All methods are called on the worker's own thread.
class Replica {
 public:
  /// `worker`: index into the program's workers.
  Replica(const Program& program, int64_t number, std::unique_ptr<Device> device, WorkerOptions options);

  const Device& device() const { return context_.device(); }

  /// The layouts that this device's kernels prefer for the worker's parameters at this batch size.
  /// `rows`: see BatchView.
  std::vector<std::pair<std::string, TensorLayout>> wanted_layouts(int64_t batch,
                                                                   const std::vector<int64_t>& rows) const {
    return context_.wanted_layouts(batch, rows);
  }
  /// Throws Error (run) if the schedule has an action that this worker cannot perform.
  void attach(SharedState& state);

  /// `repeats`: it is the step before, which has changed nothing because its loss was not finite.
  /// `samples`: StepRequest::samples.
  WorkerStep train(const BatchView& part, const StepInputs& inputs, double samples, bool repeats);
  /// Whether steps can be queued ahead: on a device beside the host, if no action needs a result on the host.
  bool can_run_ahead() const;
  /// Like Session::begin and Session::finished. Require can_run_ahead().
  void begin(const BatchView& part, const StepInputs& inputs, double samples);
  /// Whether a result must be taken before the next step begins, or, with `early`, is available already.
  bool result_is_due(bool early) const;
  StepResult finished();
  void pull() { context_.pending_push()->pull(); }
  std::vector<double> evaluate(const BatchView& part);
  std::vector<float> predict(const BatchView& part);
  /// Whether the last evaluation or prediction may have hidden a NaN or infinity (device/cpu/executable.cpp).
  bool is_suspicious() { return !std::isfinite(context_.metrics().values()[0]); }
  void show_mean() { view_.show_mean(context_); }
  void show_own() { view_.show_own(context_); }
  NonFinite find_non_finite(const BatchView& part, const StepInputs& inputs);
  std::vector<OperationTime> profile(const BatchView& part, const StepInputs& inputs);

  const std::byte* gradients() const { return context_.gradients().arena(); }
  const StateMemory& home() const { return context_.home(); }
  /// Byte ranges of the arenas that this worker updates. It holds the sums of their gradients after a step.
  const GradientExchange::Ranges& owned_ranges() const { return context_.gradients().owned_ranges(); }
  size_t activation_bytes() const { return context_.activation_bytes(); }

  /// Starts recording a timeline of the training steps, with the intervals of the first `steps`.
  void record(int64_t steps) { context_.record(steps); }
  /// Null before record().
  Timeline* timeline() const { return context_.timeline(); }

 private:
  struct Periodic {
    ScheduledAction scheduled;
    std::unique_ptr<Action> action;
  };

  const std::vector<Periodic>& schedule() const { return schedules_[context_.phase()]; }
  void run_schedule(const StepRequest& request);
  /// Computes the gradients of a step again, without consequences.
  void compute_again(const StepRequest& request);

  StepContext context_;
  ParameterView view_;
  std::vector<std::vector<Periodic>> schedules_;  ///< of each phase
  std::optional<StepsAhead> ahead_;               ///< created by the first begin()
  int64_t steps_ = 0;                             ///< since the worker started
};

}  // namespace telar
