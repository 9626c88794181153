#pragma once

#include <chrono>
#include <map>
#include <memory>

#include "telar/comm/group.h"
#include "telar/core/buffer.h"
#include "telar/device/device.h"
#include "telar/runtime/session.h"

namespace telar {

/// What all replicas of a process share: the state, and how it lies in memory.
struct SharedState {
  ArenaLayout arena;
  Buffer parameters;
  std::vector<std::string> slots;  ///< of optimizer state
  std::vector<Buffer> states;      ///< one arena for each slot
  Buffer gradients;                ///< of a pipeline: each stage fills its own part; replicas have their own
  /// Byte ranges of the program's buckets in the arenas; when it has none, one range of everything.
  std::vector<std::pair<size_t, size_t>> buckets;
};

/// One worker of a program on its device: compiled graphs by batch size, its gradients and metrics, its member of the group.
/// All methods are called on the replica's own thread.
class Replica : public HostOperations {
 public:
  Replica(const Program& program, const WorkerProgram& worker, std::unique_ptr<Device> device, Group* group,
          uint64_t seed);

  const Device& device() const { return *device_; }

  /// The layouts that this device's kernels want for the program's parameters at this batch size.
  virtual std::vector<std::pair<std::string, TensorLayout>> wanted_layouts(int64_t batch);
  void attach(SharedState& state);

  struct Step {
    StepResult result;
    double compute_seconds = 0;  ///< without the waiting for other workers
    std::chrono::steady_clock::time_point computed;
  };
  Step train(const BatchView& part, const StepInputs& inputs, int64_t global_samples);
  std::vector<double> evaluate(const BatchView& part);
  std::vector<float> predict(const BatchView& part);
  virtual std::string find_non_finite(const BatchView& part, const StepInputs& inputs);
  virtual std::vector<OperationTime> profile(const BatchView& part, const StepInputs& inputs);

  const std::byte* gradients() const { return gradient_memory(); }
  /// Byte ranges of the arenas that this worker updates, and of whose gradients it holds the sum after a step.
  const std::vector<std::pair<size_t, size_t>>& owned_ranges() const { return owned_; }
  virtual size_t activation_bytes() const { return activations_.size(); }

  void communicate(const Node& node, std::span<float> memory) override;
  void poll() override;

 protected:
  /// Before the actions of a step.
  virtual void begin_step(const BatchView& part, const StepInputs& inputs);
  /// An action that computes gradients. Adds to waited_ the seconds in which it waited for other workers.
  virtual void compute(Action action);
  /// Sum of the squares of all gradients, of all workers.
  virtual double exchange_norm();
  virtual std::vector<std::pair<size_t, size_t>> find_owned_ranges() const;
  UpdateBindings update_bindings() const;
  /// The arena of gradients.
  std::byte* gradient_memory() const;

  const Program& program_;
  Graph gradient_;
  std::unique_ptr<Device> device_;
  Group* group_;  ///< null for a worker alone
  SharedState* state_ = nullptr;
  std::unique_ptr<Updater> updater_;
  std::vector<float> metrics_;
  std::vector<uint32_t> random_;  ///< seed low, seed high, epoch, 0
  BatchView part_;                ///< of the step that runs
  StepInputs inputs_;
  double waited_ = 0;

 private:
  struct Compiled {
    std::unique_ptr<Executable> executable;
    std::unique_ptr<Context> context;
  };
  enum class Purpose : uint8_t { gradient, evaluation, prediction };

  const Graph& graph_of(Purpose purpose) const;
  Context& context_for(Purpose purpose, int64_t batch);
  void set_inputs(Context& context, const BatchView& part, uint32_t epoch);
  void compute_gradient();
  void communicate_without_samples();
  /// False when a gradient was not finite.
  bool update(const StepInputs& inputs, int64_t global_samples, double sum_of_squares);
  std::vector<double> take_metrics();

  Graph evaluation_;
  Graph prediction_;
  std::vector<Action> schedule_;
  std::vector<std::pair<size_t, size_t>> owned_;
  Buffer gradients_;
  Buffer activations_;
  std::string first_non_finite_;
  std::map<std::pair<Purpose, int64_t>, Compiled> compiled_;
};

}  // namespace telar
