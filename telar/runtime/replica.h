#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "telar/comm/group.h"
#include "telar/core/buffer.h"
#include "telar/device/device.h"
#include "telar/runtime/session.h"
#include "telar/runtime/shared_state.h"
#include "telar/runtime/timeline.h"

namespace telar {

/// One worker of a program on its device: compiled graphs by batch size, its gradients and metrics, its member of the group.
/// All methods are called on the replica's own thread.
class Replica : public HostOperations {
 public:
  /// `store`: of a program with parameter servers, else null. `tf32`: see CompileOptions.
  Replica(const Program& program, const WorkerProgram& worker, std::unique_ptr<Device> device, Group* group,
          const StoreAccess* store, uint64_t seed, bool tf32 = false);

  const Device& device() const { return *device_; }
  /// Before attach(): another group that has the same members.
  void use_group(Group& group) { group_ = &group; }

  /// The layouts that this device's kernels want for the program's parameters at this batch size.
  virtual std::vector<std::pair<std::string, TensorLayout>> wanted_layouts(int64_t batch);
  void attach(SharedState& state);

  struct Step {
    StepResult result;
    double compute_seconds = 0;                      ///< of the graphs, without waiting for other stages
    double within_gradient_seconds = 0;              ///< of these, in the group
    double after_gradient_seconds = 0;               ///< in the group, after it
    std::chrono::steady_clock::time_point computed;  ///< when the gradients were ready
  };
  Step train(const BatchView& part, const StepInputs& inputs, int64_t global_samples);
  /// A device beside the host computes steps ahead where nothing has to be asked for in between.
  bool can_run_ahead() const;
  /// As Session::begin and Session::finished, with can_run_ahead().
  void begin(const BatchView& part, const StepInputs& inputs, int64_t global_samples);
  bool oldest_is_done() const;
  StepResult finished();
  void pull();
  StepResult flush(const StepInputs& inputs);
  std::vector<double> evaluate(const BatchView& part);
  std::vector<float> predict(const BatchView& part);
  virtual std::string find_non_finite(const BatchView& part, const StepInputs& inputs);
  virtual std::vector<OperationTime> profile(const BatchView& part, const StepInputs& inputs);

  const std::byte* gradients() const { return gradients_; }
  const StateMemory& home() const { return *home_; }
  /// Byte ranges of the arenas that this worker updates, and of whose gradients it holds the sum after a step.
  const std::vector<std::pair<size_t, size_t>>& owned_ranges() const { return owned_; }
  virtual size_t activation_bytes() const { return activations_ == nullptr ? 0 : activations_->size(); }

  /// From now on the replica writes down what it does in its training steps, and keeps the intervals of the first `steps`.
  void record(int64_t steps);
  /// Null before.
  Timeline* timeline() { return timeline_.get(); }

  void communicate(const Node& node, std::span<float> memory) override;
  void poll() override;
  bool listens() const override { return timeline_ != nullptr && timeline_->in_step(); }
  void ran(const OperationName& operation) override { timeline_->did(operation); }

 protected:
  /// Before the actions of a step.
  virtual void begin_step(const BatchView& part, const StepInputs& inputs);
  /// An action that computes gradients. Adds to waited_ the seconds in which it waited for other workers.
  virtual void compute(Action action);
  /// Sum of the squares of all gradients, of all workers.
  virtual double exchange_norm();
  /// Intervals that a step may have, at most.
  virtual size_t intervals() const { return 3 * gradient_.nodes().size() + 64; }
  /// Seconds of each operation that `body` runs.
  std::vector<OperationTime> time_operations(const std::function<void()>& body);
  /// Writes down what the replica has done since it last did so.
  void did(StepPhase phase, const char* what) {
    if (timeline_ != nullptr) timeline_->did(phase, what);
  }
  std::vector<std::pair<size_t, size_t>> find_owned_ranges() const;
  UpdateBindings update_bindings() const;
  /// The metrics' memory, of the device, at the beginning of a step; and their values at its end, which the host has then.
  void clear_metrics();
  /// A device beside the host has computed what it was told to, and the metrics are here; until then the exchange goes on.
  void wait_until_computed();
  std::span<float> metrics();
  Bindings bindings() const;

  const Program& program_;
  Graph gradient_;
  std::unique_ptr<Device> device_;
  Group* group_;  ///< null for a worker alone
  SharedState* state_ = nullptr;
  StateMemory* home_ = nullptr;  ///< the memory in which it computes
  std::unique_ptr<Updater> updater_;
  std::byte* gradients_ = nullptr;  ///< an arena
  std::vector<uint32_t> random_;    ///< seed low, seed high, epoch, 0
  BatchView part_;                  ///< of the step that runs
  StepInputs inputs_;
  double waited_ = 0;
  std::unique_ptr<Timeline> timeline_;  ///< null: nothing is written down

 private:
  struct Compiled {
    std::unique_ptr<Executable> executable;
    std::unique_ptr<Context> context;
  };
  enum class Purpose : uint8_t { gradient, evaluation, prediction };

  const Graph& graph_of(Purpose purpose) const;
  Context& context_for(Purpose purpose, int64_t batch);
  std::unique_ptr<Memory> allocate_activations(int64_t batch, size_t bytes) const;
  void set_inputs(Context& context, const BatchView& part, uint32_t epoch);
  void compute_gradient();
  void communicate_without_samples();
  /// False when a gradient was not finite.
  bool update(const UpdateBindings& bindings, const StepInputs& inputs, int64_t global_samples,
              double sum_of_squares);
  void accrue(int64_t samples);
  void push(Action action, bool then_pull, const StepInputs& inputs, StepResult& result);
  std::vector<double> take_metrics();
  /// Starts the sum of a bucket whose gradients lie where the group finds them; of all whose gradients have come there.
  void start_sum(size_t begin, size_t end);
  void start_sums_that_arrived();
  /// Brings the sums that it updates with to a device with memory of its own.
  void take_sums();
  /// Once every member has updated its shard: where there are several memories each gets what was updated in the others.
  void share_parameters();
  void exchange(const Node& node, std::span<float> memory);
  void finish();
  /// Calls the group and counts the time. `what` says for what it waits; null for work on sums that go on meanwhile.
  template <typename Body>
  void communicating(const char* what, const Body& body);

  Graph evaluation_;
  Graph prediction_;
  std::vector<ScheduledAction> schedule_;
  std::vector<std::pair<size_t, size_t>> owned_;
  const StoreAccess* store_;
  bool tf32_;
  std::optional<ServerExchange> exchange_;
  int64_t steps_ = 0;                ///< since the worker began
  std::unique_ptr<Memory> accrued_;  ///< gradients since the last push, when that is longer ago than one step
  int64_t pending_samples_ = 0;
  int64_t pending_batches_ = 0;
  std::unique_ptr<Memory> own_gradients_;  ///< of a worker alone, or with memory of its own
  std::span<std::byte> exchanged_;  ///< where the group sums gradients: the same memory for a processor
  std::unique_ptr<PinnedHost> pinned_exchange_;
  /// Buckets on their way there, from a device with memory of its own.
  struct HandedOver {
    size_t begin;
    size_t end;
    std::unique_ptr<PendingCopy> copy;
  };
  std::deque<HandedOver> handed_over_;
  std::unique_ptr<Memory> activations_;
  std::unique_ptr<Memory> metrics_memory_;  ///< the metrics, and whether a step ahead has spoilt the state
  std::vector<float> metrics_;
  std::unique_ptr<PinnedHost> pinned_metrics_;
  bool metrics_are_here_ = false;  ///< metrics_ holds what was computed since clear_metrics()
  // Of steps ahead: the metrics, and whether the state was spoilt, of each on their way to the host.
  std::vector<float> returned_;
  std::unique_ptr<PinnedHost> pinned_;
  std::deque<std::pair<std::unique_ptr<PendingCopy>, std::span<float>>> ahead_;
  size_t begun_ = 0;
  std::string first_non_finite_;
  double communication_seconds_ = 0;  ///< in the group, since the step began
  size_t started_ = 0;                ///< sums since the last finish()
  size_t complete_ = 0;               ///< how many of them are known to have come
  std::map<std::pair<Purpose, int64_t>, Compiled> compiled_;
};

}  // namespace telar
