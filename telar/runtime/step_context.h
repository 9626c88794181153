#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "telar/comm/group.h"
#include "telar/device/device.h"
#include "telar/runtime/compiled_graphs.h"
#include "telar/runtime/gradient_exchange.h"
#include "telar/runtime/parameter_exchange.h"
#include "telar/runtime/pending_push.h"
#include "telar/runtime/sample_exchange.h"
#include "telar/runtime/session.h"
#include "telar/runtime/shared_state.h"
#include "telar/runtime/step_metrics.h"
#include "telar/runtime/timeline.h"

namespace telar {

class PipelineStage;
struct PipelineExchange;

/// How a worker takes part in its session.
struct WorkerOptions {
  Group* group = nullptr;                     ///< of all workers; null for a single one
  std::map<std::string, Group*> groups = {};  ///< others, by name; null: the worker is the only member
  const StoreAccess* store = nullptr;         ///< for a program with parameter servers
  PipelineExchange* stages = nullptr;         ///< for a stage of a pipeline
  Processes* processes = nullptr;             ///< that train together; null if there is only one
  uint64_t seed = 0;
  bool tf32 = false;                                  ///< see CompileOptions
  std::function<void(const std::string&)> warn = {};  ///< see SessionOptions; called once
};

/// A step that a worker is to make.
struct StepRequest {
  BatchView part;  ///< the samples of this worker
  StepInputs inputs;
  double samples = 0;  ///< of which the update takes the mean: of all workers, or a worker that trains alone
  int64_t number = 0;  ///< of the worker's steps, from 1
  bool ahead = false;  ///< the step is only queued on the device; nothing waits for its results
  bool inspects = false;  ///< graphs look for the first NaN or infinity
};

/// Where a worker first found a NaN or infinity; empty: nowhere.
struct NonFinite {
  std::string forward;
  std::string backward;
};

/// The outcome of a worker's step, and the worker's times.
struct WorkerStep {
  StepResult result;
  bool averaged = false;                           ///< the workers' parameters
  double compute_seconds = 0;                      ///< in the graphs, without waiting for other stages
  double within_gradient_seconds = 0;              ///< of these, in the group
  double after_gradient_seconds = 0;               ///< in the group after the gradient graph
  std::chrono::steady_clock::time_point computed;  ///< when the gradients were ready
};

/// What the actions of one worker's schedule work with: the worker's graphs, memory and groups, and the step
/// that it is making. It is also the host of the graphs: it executes their communication. All methods are
/// called on the worker's own thread.
class StepContext final : public HostOperations {
 public:
  /// `number`: of the worker among all.
  StepContext(const Program& program, int64_t number, std::unique_ptr<Device> device, WorkerOptions options);
  ~StepContext() override;
  StepContext(const StepContext&) = delete;
  StepContext& operator=(const StepContext&) = delete;

  /// The layouts that this device's kernels prefer for the worker's parameters at this batch size.
  /// `rows`: see BatchView.
  std::vector<std::pair<std::string, TensorLayout>> wanted_layouts(int64_t batch,
                                                                   const std::vector<int64_t>& rows) const;
  /// Allocates what the worker needs besides the state. Nothing below may be called before.
  void attach(SharedState& state);

  // The worker.

  const Program& program() const { return program_; }
  const WorkerProgram& worker() const { return worker_; }
  /// Of the step's phase.
  const Graph& gradient_graph() const { return gradients_of_phases_[phase_]; }
  const std::vector<ScheduledAction>& schedule() const { return schedule_in(worker_, phase_); }
  size_t phase() const { return phase_; }
  const Graph& evaluation_graph() const { return evaluation_; }
  const Graph& prediction_graph() const { return prediction_; }
  int64_t number() const { return number_; }  ///< among all workers
  /// Among those of this process.
  size_t index() const { return static_cast<size_t>(number_ % program_.mesh.of_process()); }
  Processes* processes() const { return options_.processes; }
  const Device& device() const { return *device_; }
  const StateMemory& home() const { return *home_; }
  /// The group of this name; null if the worker is its only member. Throws Error (run) for an unknown name.
  Group* group(const std::string& name = kAllWorkers) const;
  GradientExchange& gradients() { return *gradients_; }
  const GradientExchange& gradients() const { return *gradients_; }
  StepMetrics& metrics() { return *metrics_; }
  const Updater& updater() const { return *updater_; }
  CompiledGraphs& graphs() { return *graphs_; }
  bool uses_servers() const { return pending_push_.has_value(); }
  /// Null without parameter servers.
  PendingPush* pending_push() { return pending_push_ ? &*pending_push_ : nullptr; }
  /// Null unless the worker is a pipeline stage.
  PipelineStage* stage() const { return stage_.get(); }
  /// For the gradient graph, without activations.
  Bindings bindings() const;
  const UpdateBindings& update_bindings() const { return update_bindings_; }
  size_t activation_bytes() const;

  // The step.

  void begin_step(const StepRequest& request);
  /// The step's result, with its metrics, and its times.
  WorkerStep end_step();
  const StepRequest& request() const { return request_; }
  WorkerStep& step() { return step_; }
  /// Whether the action is done in this step.
  bool is_due(const ScheduledAction& scheduled) const;
  /// Whether the schedule contains an action of this kind that is.
  bool is_due(ActionKind kind) const;
  /// What actions leave to later actions of the same step.
  struct Notes {
    std::optional<double> sum_of_squares;  ///< of all gradients of all workers
    bool pulled = false;                   ///< the servers' parameters came with the answer to a push
  };
  Notes& notes() { return notes_; }
  const NonFinite& found() const { return found_; }
  /// Computes this step's samples from now on with kernels that hide no NaN or infinity.
  void hide_nothing() { request_.part.non_finite = true; }

  // What several actions do.

  /// Gives a graph the samples of `part`, and random numbers of this epoch.
  void set_inputs(Context& graph, const BatchView& part, uint32_t epoch);
  /// Runs a part of a graph. If the step inspects, notes the first operation whose result is not finite.
  /// `direction`: forward or backward, to which such an operation belongs.
  void run(Context& graph, Phase phase, StepPhase direction);
  /// Runs `body`, which computes gradients, and measures its time; waits until the device has finished,
  /// unless the step runs ahead.
  template <typename Body>
  void computing(const Body& body);
  /// Runs a call of the group and measures its time. `what` names what it waits for; null for work on sums in
  /// the background.
  template <typename Body>
  void communicating(const char* what, const Body& body);
  /// Finishes the sums that were started in this step. In a step that runs ahead, only the device waits.
  void finish_sums();
  /// Updates the bytes [begin, end) of the arena with this step's gradients. Other threads call it, too, each
  /// for other bytes. Returns false if a gradient was not finite.
  bool update(UpdateBindings bindings, double sum_of_squares, size_t begin, size_t end) const;
  /// Sum of the squares of all gradients of the group's workers.
  double sum_of_squares(Group* group);
  /// Records what the worker has done since the previous record.
  void did(StepPhase phase, const char* what) {
    if (timeline_ != nullptr) timeline_->did(phase, what);
  }

  /// Starts recording a timeline of the training steps, with the intervals of the first `steps`.
  void record(int64_t steps);
  /// Null before record().
  Timeline* timeline() const { return timeline_.get(); }
  /// Returns the seconds of each operation that `body` runs.
  std::vector<OperationTime> time_operations(const std::function<void()>& body);

  void communicate(const Node& node, std::span<float> memory) override;
  void exchange(const Node& node, Inputs inputs, Outputs outputs) override;
  void poll() override;
  bool listens() const override { return timeline_ != nullptr && timeline_->in_step(); }
  void ran(const OperationName& operation) override { timeline_->did(operation); }
  bool sums_on_device() const override {
    return options_.group != nullptr && options_.group->sums_on_device();
  }
  void warn(const std::string& text) override;

 private:
  using Clock = std::chrono::steady_clock;

  /// Waits until a device beside the host has finished its queued work and the metrics have arrived. Advances
  /// the exchange meanwhile.
  void wait_until_computed();
  /// The device has stored this member's row first; fills all rows.
  static void gather(Group& group, std::span<float> rows);
  /// The same as sum_of_squares() for a worker with a memory of its own.
  double sum_of_pieces();
  /// Upper limit for the intervals of a step.
  size_t intervals() const;

  const Program& program_;
  int64_t number_;
  const WorkerProgram& worker_;
  std::vector<Graph> gradients_of_phases_;
  Graph evaluation_;
  Graph prediction_;
  std::unique_ptr<Device> device_;
  WorkerOptions options_;
  std::array<uint32_t, 4> random_;  ///< seed low, seed high, epoch, 0
  std::unique_ptr<PipelineStage> stage_;
  StateMemory* home_ = nullptr;  ///< memory in which it computes
  std::optional<GradientExchange> gradients_;
  std::optional<StepMetrics> metrics_;
  std::unique_ptr<Updater> updater_;
  UpdateBindings update_bindings_;
  std::optional<PendingPush> pending_push_;
  std::optional<CompiledGraphs> graphs_;
  std::unique_ptr<Timeline> timeline_;  ///< null: nothing is recorded

  StepRequest request_;
  size_t phase_ = 0;
  WorkerStep step_;
  Notes notes_;
  NonFinite found_;
  SampleExchange samples_;
  ParameterExchange parameters_;
  double communication_seconds_ = 0;  ///< in the group, since the start of the step
};

template <typename Body>
void StepContext::communicating(const char* what, const Body& body) {
  const auto start = Clock::now();
  const size_t started = gradients_->started();
  body();
  const auto end = Clock::now();
  communication_seconds_ += std::chrono::duration<double>(end - start).count();
  if (timeline_ == nullptr) return;
  timeline_->did(StepPhase::exchange, what != nullptr ? what : "sums", end);
  if (what != nullptr) timeline_->called_group(what, start, end);
  if (gradients_->started() > started) timeline_->sum_began(start);
  timeline_->sums_complete(gradients_->complete(), end);
}

template <typename Body>
void StepContext::computing(const Body& body) {
  const auto start = Clock::now();
  body();
  if (request_.ahead) return;
  wait_until_computed();
  step_.computed = Clock::now();
  step_.compute_seconds += std::chrono::duration<double>(step_.computed - start).count();
  step_.within_gradient_seconds += std::exchange(communication_seconds_, 0.0);
}

}  // namespace telar
