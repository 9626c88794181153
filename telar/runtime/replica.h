#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "telar/comm/group.h"
#include "telar/device/device.h"
#include "telar/runtime/compiled_graphs.h"
#include "telar/runtime/gradient_exchange.h"
#include "telar/runtime/pending_push.h"
#include "telar/runtime/session.h"
#include "telar/runtime/shared_state.h"
#include "telar/runtime/step_metrics.h"
#include "telar/runtime/steps_ahead.h"
#include "telar/runtime/timeline.h"

namespace telar {

/// One worker of a program on its device. It executes its schedule and is a member of the group. All methods
/// are called on the replica's own thread.
class Replica : public HostOperations {
 public:
  using Warn = std::function<void(const std::string&)>;

  /// `store`: for a program with parameter servers, otherwise null. `tf32`: see CompileOptions. `warn`: see
  /// SessionOptions.
  Replica(const Program& program, const WorkerProgram& worker, std::unique_ptr<Device> device, Group* group,
          const StoreAccess* store, uint64_t seed, bool tf32 = false, Warn warn = {});

  const Device& device() const { return *device_; }

  /// The layouts that this device's kernels prefer for the program's parameters at this batch size.
  virtual std::vector<std::pair<std::string, TensorLayout>> wanted_layouts(int64_t batch);
  void attach(SharedState& state);

  struct Step {
    StepResult result;
    double compute_seconds = 0;                      ///< in the graphs, without waiting for other stages
    double within_gradient_seconds = 0;              ///< of these, in the group
    double after_gradient_seconds = 0;               ///< in the group after the gradient graph
    std::chrono::steady_clock::time_point computed;  ///< when the gradients were ready
  };
  Step train(const BatchView& part, const StepInputs& inputs, int64_t global_samples);
  /// Whether steps can be queued ahead: on a device beside the host, if no step needs a result on the host.
  bool can_run_ahead() const;
  /// Like Session::begin and Session::finished. Require can_run_ahead().
  void begin(const BatchView& part, const StepInputs& inputs, int64_t global_samples);
  /// Whether a result must be taken before the next step begins, or, with `early`, is available already.
  bool result_is_due(bool early) const;
  StepResult finished();
  void pull() { pending_push_->pull(); }
  StepResult flush(const StepInputs& inputs);
  std::vector<double> evaluate(const BatchView& part);
  std::vector<float> predict(const BatchView& part);
  virtual std::string find_non_finite(const BatchView& part, const StepInputs& inputs);
  virtual std::vector<OperationTime> profile(const BatchView& part, const StepInputs& inputs);

  const std::byte* gradients() const { return gradients_->arena(); }
  const StateMemory& home() const { return *home_; }
  /// Byte ranges of the arenas that this worker updates. It holds the sums of their gradients after a step.
  const GradientExchange::Ranges& owned_ranges() const { return gradients_->owned_ranges(); }
  virtual size_t activation_bytes() const { return graphs_->activation_bytes(); }

  /// Starts recording a timeline of the training steps, with the intervals of the first `steps`.
  void record(int64_t steps);
  /// Null before record().
  Timeline* timeline() { return timeline_.get(); }

  void communicate(const Node& node, std::span<float> memory) override;
  void poll() override;
  bool listens() const override { return timeline_ != nullptr && timeline_->in_step(); }
  void ran(const OperationName& operation) override { timeline_->did(operation); }
  bool sums_on_device() const override { return group_ != nullptr && group_->sums_on_device(); }
  void warn(const std::string& text) override;

 protected:
  /// Called before the actions of a step.
  virtual void begin_step(const BatchView& part, const StepInputs& inputs);
  /// Runs an action that computes gradients. Adds the seconds of waiting for other workers to waited_.
  virtual void compute(Action action);
  /// Sum of the squares of all gradients of all workers.
  virtual double exchange_norm();
  /// Upper limit for the intervals of a step.
  virtual size_t intervals() const { return 3 * gradient_.nodes().size() + 64; }
  /// Returns the seconds of each operation that `body` runs.
  std::vector<OperationTime> time_operations(const std::function<void()>& body);
  /// Records what the replica has done since the previous record.
  void did(StepPhase phase, const char* what) {
    if (timeline_ != nullptr) timeline_->did(phase, what);
  }
  UpdateBindings update_bindings() const;
  /// For the gradient graph, without activations.
  Bindings bindings() const;

  const Program& program_;
  Graph gradient_;
  std::unique_ptr<Device> device_;
  Group* group_;                 ///< null for a single worker
  StateMemory* home_ = nullptr;  ///< memory in which it computes
  std::unique_ptr<Updater> updater_;
  std::optional<GradientExchange> gradients_;
  std::optional<StepMetrics> metrics_;
  std::vector<uint32_t> random_;  ///< seed low, seed high, epoch, 0
  BatchView part_;                ///< of the current step
  StepInputs inputs_;
  double waited_ = 0;
  std::unique_ptr<Timeline> timeline_;  ///< null: nothing is recorded

 private:
  using Purpose = CompiledGraphs::Purpose;

  void set_inputs(Context& context, const BatchView& part, uint32_t epoch);
  void compute_gradient();
  void communicate_without_samples();
  /// Waits until a device beside the host has finished its queued work and the metrics have arrived. Advances
  /// the exchange meanwhile.
  void wait_until_computed();
  /// Returns false if a gradient was not finite.
  bool update(const UpdateBindings& bindings, const StepInputs& inputs, int64_t global_samples,
              double sum_of_squares);
  std::vector<double> take_metrics();
  /// The device has stored this member's row first; fills all rows.
  void gather(std::span<float> rows);
  void finish();
  /// Runs a call of the group and measures its time. `what` names what it waits for; null for work on sums in
  /// the background.
  template <typename Body>
  void communicating(const char* what, const Body& body);

  Graph evaluation_;
  Graph prediction_;
  std::vector<ScheduledAction> schedule_;
  const StoreAccess* store_;
  bool tf32_;
  Warn warn_;          ///< empty after the first call
  int64_t steps_ = 0;  ///< since the worker started
  std::string first_non_finite_;
  double communication_seconds_ = 0;  ///< in the group, since the start of the step
  std::optional<PendingPush> pending_push_;
  std::optional<StepsAhead> ahead_;  ///< created by the first begin()
  std::optional<CompiledGraphs> graphs_;
};

}  // namespace telar
