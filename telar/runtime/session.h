#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "telar/comm/processes.h"
#include "telar/data/batch_source.h"
#include "telar/device/device.h"
#include "telar/graph/program.h"
#include "telar/observe/trace.h"
#include "telar/runtime/bubble.h"
#include "telar/runtime/communication_time.h"
#include "telar/runtime/gpu_exchange.h"
#include "telar/runtime/mixed_speed.h"
#include "telar/runtime/phases.h"
#include "telar/runtime/server_exchange.h"
#include "telar/runtime/state_name.h"

namespace telar {

/// An input of each sample of a batch.
struct BatchInput {
  std::string_view name;       ///< of the graphs' input: "x", "label"
  const void* data = nullptr;  ///< [samples, …] of the input's type, contiguous
};

/// A view of samples in contiguous canonical memory, which is read during the call.
struct BatchView {
  int64_t size = 0;  ///< samples; may be 0
  /// Session::inputs(), in any order; predict() needs only those that the prediction depends on.
  std::vector<BatchInput> inputs = {};
  /// Global sample ids [size]; may be null for evaluate and predict. The graph's input is i32 [size, 2], the
  /// low and the high word, which is the same memory on a little-endian machine.
  const int64_t* sample = nullptr;
  /// These are the samples of the previous step, which a device with its own memory still has. For
  /// measurements without the copy to the device.
  bool again = false;
  int64_t all = 0;          ///< samples of this batch in all processes; 0: only these
  bool non_finite = false;  ///< see CompileOptions; the session fills it in
  /// For a worker that computes a batch together with others (Program::batch_group): the samples of each
  /// member of its group. The session fills it in.
  std::span<const int64_t> rows = {};
};

/// Values that change from step to step.
struct StepInputs {
  float learning_rate = 0;
  int64_t step = 1;     ///< 1 for the first update of the job
  uint32_t epoch = 0;   ///< for random numbers
  int64_t samples = 0;  ///< of the step over all processes; 0: those of this batch
  /// When the wait for the batch began; the step's phases begin then. Default: at the call.
  std::optional<std::chrono::steady_clock::time_point> waited_since = std::nullopt;
  int64_t work = 0;  ///< with parameter servers: StoreExchange::work
  /// With parameter servers: the last step of a part of that piece of work, which is pushed.
  bool completes_work = true;
  bool more_parts = false;  ///< other parts of the same piece follow, and are pushed together with this one
};

struct StepResult {
  std::vector<double> metrics;       ///< sums over the batch's samples, in the order of metric_names
  CommunicationTime communication;   ///< of this process's replicas
  std::optional<PhaseTimes> phases;  ///< mean over this process's replicas; with Session::record_phases
  /// False in two cases. Either the loss was NaN or infinite, and nothing was updated. Or a gradient was,
  /// although the loss was finite (a ReLU can hide it), and the parameters are non-finite.
  bool finite = true;
  /// What happened to the step's gradient (with parameter averaging, to the step): used; pending, to be
  /// pushed with a later step; or dropped, because the round was not applied.
  enum class Fate : uint8_t { used, pending, dropped };
  Fate fate = Fate::used;
  double staleness = 0;      ///< updates by others since these parameters were pulled; 0 without servers
  int64_t lost_updates = 0;  ///< that a restarted parameter server has lost
};

struct SessionOptions {
  uint64_t seed = 0;
  bool measured_shares = false;        ///< split the batch by each replica's speed, measured during the run
  std::vector<double> shares;          ///< fixed relative shares of the replicas; empty: equal, or by threads
  Processes* processes = nullptr;      ///< that train together, including this one; null: it is alone
  const StoreAccess* store = nullptr;  ///< for a worker with parameter servers; must outlive the session
  GpuExchange gpu_exchange = GpuExchange::automatic;
  bool tf32 = false;          ///< see CompileOptions
  int64_t typical_batch = 0;  ///< samples of most steps, for choosing layouts; 0: the program's batch
  /// Called at most once per text, from any thread: `say` for information on how the session computes, `warn`
  /// for what slows it down. May be empty.
  std::function<void(const std::string&)> say;
  std::function<void(const std::string&)> warn;
};

/// Memory of a session, for the report and the summary.
struct SessionMemory {
  size_t parameter_bytes = 0;   ///< parameters, gradients of all replicas, optimizer state
  size_t gradient_bytes = 0;    ///< of these, gradients
  size_t optimizer_bytes = 0;   ///< and optimizer state
  size_t activation_bytes = 0;  ///< of all replicas
};

/// Runs a program: owns the state (parameters, optimizer state) and a thread team for each replica. Higher
/// floors know neither devices nor strategies. Not thread-safe. With several processes, each has a session,
/// and all call the same functions in the same order; metrics are sums over all of them.
class Session {
 public:
  Session(Program program, const Cluster& cluster, SessionOptions options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Sets every parameter by its initializer from (seed, name), and the optimizer state to zero. The
  /// constructor calls it.
  void initialise();

  /// Goes on with another program of the same training step, such as that of fewer processes. Its groups are
  /// those of SessionOptions::processes, as these are now; all of them call it. Every tensor of the state
  /// must then be written. If it throws, the session is as before. Throws Error (run) if devices have steps
  /// under way.
  void remake(Program program, const Cluster& cluster);

  /// Runs one training step on this process's part of the batch. The part may have 0 samples if other
  /// processes have some.
  StepResult train(const BatchView& batch, const StepInputs& inputs);
  /// Starts a step; finished() returns its result. begin() returns when the batch has been read. On a CPU the
  /// step is then complete; a GPU that trains alone computes while the host continues.
  void begin(const BatchView& batch, const StepInputs& inputs);
  /// Returns the result of the oldest step whose result was not returned yet. Waits for it if `wait` is true
  /// or kStepsAhead steps have begun. Processes whose workers train alone exchange the metrics of their steps
  /// when parameters are averaged, so results come later, one for each step that begins. Otherwise returns
  /// none if it is not ready, and always none with several processes, because all must begin the same steps.
  /// After a step that was not finite, the steps begun after it update nothing.
  std::optional<StepResult> finished(bool wait);
  static constexpr size_t kStepsAhead = 4;
  /// With parameter servers: pulls their parameters.
  void pull();
  /// Returns metric sums over the batch in evaluation mode. Changes nothing.
  std::vector<double> evaluate(const BatchView& batch);
  /// Returns the model's output [size, …] in evaluation mode.
  std::vector<float> predict(const BatchView& batch);
  /// The inputs of each sample from which a training step is computed.
  std::vector<BatchTensor> inputs() const;
  /// Dimensions of one sample's prediction.
  Shape prediction_shape() const;
  const std::vector<std::string>& metric_names() const;

  /// All tensors of the state: parameters, then optimizer state. Where workers train alone, the mean of
  /// theirs, which evaluate() and predict() use, too.
  std::vector<StateName> state_names() const;
  /// What each worker that trains alone has of its own now, besides: its optimizer state and, between two
  /// averages, its parameters. Empty for other programs.
  std::vector<StateName> states_of_workers() const;
  /// Whether tensors of the state, or what their means are of, are divided among processes. Then all of them
  /// call read_state and read_gradient, in the same order.
  bool state_is_divided() const;
  /// The same of one tensor: whether all processes must call read_state for it.
  bool is_divided(const StateName& name) const;
  /// Canonical shape and values of a state tensor. Throws Error (run) for an unknown name.
  Shape state_shape(const StateName& name) const;
  std::vector<float> read_state(const StateName& name) const;
  /// Throws Error (user) if the number of values does not match.
  void write_state(const StateName& name, std::span<const float> values);
  /// The gradient sums of the last step in canonical form, for tests and diagnosis.
  std::vector<float> read_gradient(const std::string& parameter) const;

  /// After a step that was not finite: where this batch first produces a NaN or infinity, for example "layer
  /// 'conv2' (conv2d)".
  std::string find_non_finite(const BatchView& batch, const StepInputs& inputs);

  /// Returns the seconds of each operation of one training step on replica 0, or on all stages in order.
  /// Changes only gradients. For benchmarks.
  std::vector<OperationTime> profile(const BatchView& batch, const StepInputs& inputs);

  /// Makes train() report the phases of each step, and keeps the operations of the first `steps` steps for
  /// trace(). Not with parameter servers.
  void record_phases(int64_t steps);
  /// Rows of the kept steps, in microseconds since `zero`: each replica or stage, and its communication.
  /// Empty without record_phases.
  std::vector<TraceRow> trace(std::chrono::steady_clock::time_point zero) const;

  /// The number of replicas in all processes. The stages of a pipeline are one replica together.
  int replicas() const;
  std::string strategy() const;
  const Program& program() const;
  std::vector<std::string> device_names() const;
  /// Whether gradients pass directly between GPUs; otherwise they pass through host memory.
  bool exchanges_by_nccl() const;
  SessionMemory memory() const;
  /// For CPUs and GPUs that train together in this process; none otherwise, or before enough steps.
  std::optional<MixedSpeed> mixed_speed() const;
  /// Current relative shares of the replicas.
  std::vector<double> shares() const;
  /// For a pipeline, over all steps but the first ones; none before. All processes call it.
  std::optional<Bubble> bubble() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace telar
