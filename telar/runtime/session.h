#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "telar/comm/processes.h"
#include "telar/device/device.h"
#include "telar/graph/program.h"
#include "telar/observe/trace.h"
#include "telar/runtime/bubble.h"
#include "telar/runtime/communication_time.h"
#include "telar/runtime/gpu_exchange.h"
#include "telar/runtime/mixed_speed.h"
#include "telar/runtime/phases.h"
#include "telar/runtime/server_exchange.h"

namespace telar {

/// Some samples: contiguous canonical memory, read during the call.
struct BatchView {
  int64_t size = 0;                 ///< samples; may be 0
  const void* x = nullptr;          ///< [size, …] in the model's input type
  const void* label = nullptr;      ///< i32 [size], or f32 targets; may be null for predict
  const int32_t* sample = nullptr;  ///< global sample ids [size]; may be null for evaluate and predict
  /// They are those of the step before: a device with memory of its own has them. For measuring without the way to it.
  bool again = false;
};

/// What changes from step to step.
struct StepInputs {
  float learning_rate = 0;
  int64_t step = 1;     ///< 1 for the first update of the job
  uint32_t epoch = 0;   ///< for random numbers
  int64_t samples = 0;  ///< of the step over all processes; 0: those of the batch
  /// Since when the batch was waited for: the step's phases begin then. Without it they begin with the call.
  std::optional<std::chrono::steady_clock::time_point> waited_since = std::nullopt;
};

struct StepResult {
  std::vector<double> metrics;       ///< sums over the batch's samples, in the order of metric_names
  CommunicationTime communication;   ///< of this process's replicas
  std::optional<PhaseTimes> phases;  ///< mean of this process's replicas; with Session::record_phases
  /// False: the loss was NaN or infinite, and nothing was updated; or a gradient was, which a ReLU hid from the loss, and
  /// the parameters are non-finite.
  bool finite = true;
  /// What became of the gradient, or, of parameter averaging, of the step: it counts; it will be pushed with a later step;
  /// or the round was complete without it.
  enum class Fate : uint8_t { used, pending, dropped };
  Fate fate = Fate::used;
  double staleness = 0;      ///< updates by others since these parameters were pulled; 0 without servers
  int64_t lost_updates = 0;  ///< that a parameter server had forgotten when it was restarted
};

struct SessionOptions {
  uint64_t seed = 0;
  bool measured_shares = false;  ///< split the batch by each replica's measured speed, re-measured as it runs
  std::vector<double> shares;    ///< fixed relative shares of the replicas; empty: equal, or by threads
  Processes* processes = nullptr;      ///< that train together, of which this is one; null: it is alone
  const StoreAccess* store = nullptr;  ///< of a worker with parameter servers; must outlive the session
  GpuExchange gpu_exchange = GpuExchange::automatic;
  bool tf32 = false;          ///< see CompileOptions
  int64_t typical_batch = 0;  ///< samples of most steps, for which layouts are chosen; 0: the program's batch
  /// Told, once and by any thread, what a user wants to know of how this computes, and what makes it slower than it could be. May be empty.
  std::function<void(const std::string&)> say;
  std::function<void(const std::string&)> warn;
};

/// Memory of one session, for the report and the summary.
struct SessionMemory {
  size_t parameter_bytes = 0;   ///< parameters, gradients of all replicas, optimizer state
  size_t activation_bytes = 0;  ///< of all replicas
};

/// Runs a program: owns the state (parameters, optimizer state) and a thread team for each replica. Nothing above it knows
/// devices or strategies. Not for several threads at once. With several processes each has a session, and all call the same
/// functions in the same order; metrics are sums over all of them.
class Session {
 public:
  Session(Program program, const Cluster& cluster, SessionOptions options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Sets every parameter by its initializer from (seed, name) and optimizer state to zero. Done by the constructor.
  void initialise();

  /// One training step over the batch, in this process's part of it. 0 samples are allowed where others have some.
  StepResult train(const BatchView& batch, const StepInputs& inputs);
  /// The same in two parts. begin() returns when the batch has been taken: a processor has made the step then; a GPU that trains alone
  /// computes while the host goes on.
  void begin(const BatchView& batch, const StepInputs& inputs);
  /// The result of the oldest step that was begun and whose result was not given yet. Waits for it when `wait`, or when kStepsAhead have
  /// begun; else there may be none, and among several processes there is none: all make the same steps. Once a step was not finite nothing is updated by those that were begun after it.
  std::optional<StepResult> finished(bool wait);
  static constexpr size_t kStepsAhead = 4;
  /// With parameter servers: takes their parameters.
  void pull();
  /// With parameter servers: pushes what is pending, and takes their parameters.
  StepResult flush(const StepInputs& inputs);
  /// Metric sums over the batch in evaluation mode; changes nothing.
  std::vector<double> evaluate(const BatchView& batch);
  /// The model's output [size, …] in evaluation mode.
  std::vector<float> predict(const BatchView& batch);
  /// Extents of one sample's prediction.
  Shape prediction_shape() const;
  const std::vector<std::string>& metric_names() const;

  /// Names of all state in canonical form: parameters ("conv1.weight") and optimizer state ("momentum/conv1.weight").
  std::vector<std::string> state_names() const;
  /// Canonical shape and values of a state tensor. Throws Error (run) for an unknown name.
  Shape state_shape(const std::string& name) const;
  std::vector<float> read_state(const std::string& name) const;
  /// Throws Error (user) when the size does not fit.
  void write_state(const std::string& name, std::span<const float> values);
  /// The gradient sums of the last step, canonical (for tests and diagnosis).
  std::vector<float> read_gradient(const std::string& parameter) const;

  /// After a step that was not finite: where a NaN or infinity is first seen for this batch, in words:
  /// "layer 'conv2' (conv2d)".
  std::string find_non_finite(const BatchView& batch, const StepInputs& inputs);

  /// Seconds of each operation of one training step on replica 0, or on all stages, in order; changes nothing but gradients.
  /// For benchmarks.
  std::vector<OperationTime> profile(const BatchView& batch, const StepInputs& inputs);

  /// From now on train() says what its time went into, and the operations of the first `steps` steps are kept for trace(). Not with
  /// parameter servers.
  void record_phases(int64_t steps);
  /// Rows of the steps kept, by microseconds since `zero`: each replica or stage, and its communication. Empty without record_phases.
  std::vector<TraceRow> trace(std::chrono::steady_clock::time_point zero) const;

  /// Of all processes. The stages of a pipeline are one.
  int replicas() const;
  std::string strategy() const;
  const Program& program() const;
  std::vector<std::string> device_names() const;
  /// Whether gradients go from GPU to GPU; otherwise through the host's memory.
  bool exchanges_by_nccl() const;
  SessionMemory memory() const;
  /// Of processors and GPUs that train together in this process; none otherwise, or before enough steps.
  std::optional<MixedSpeed> mixed_speed() const;
  /// Relative shares of the replicas now.
  std::vector<double> shares() const;
  /// Of a pipeline, over all steps but the first; none before.
  std::optional<Bubble> bubble() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace telar
