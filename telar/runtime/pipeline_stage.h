#pragma once

#include <functional>
#include <map>
#include <memory>

#include "telar/runtime/replica.h"
#include "telar/runtime/stage_exchange.h"

namespace telar {

/// A pipeline stage on its device. It trains its layers with the whole batch, one micro-batch after another.
/// For evaluation and prediction it works like a replica: the whole model on its part of the batch.
///
/// Every micro-batch has its own context. The schedule limits how many micro-batches are in flight, that is,
/// between forward and backward. There is activation memory for this number of contexts.
class PipelineStage final : public Replica {
 public:
  /// `stage`: index of the worker in the program.
  PipelineStage(const Program& program, size_t stage, std::unique_ptr<Device> device, Group& group,
                StageExchange& exchange, uint64_t seed);

  /// For the parameters that this stage trains.
  std::vector<std::pair<std::string, TensorLayout>> wanted_layouts(int64_t batch) override;
  std::string find_non_finite(const BatchView& batch, const StepInputs& inputs) override;
  std::vector<OperationTime> profile(const BatchView& batch, const StepInputs& inputs) override;
  size_t activation_bytes() const override;

 protected:
  void begin_step(const BatchView& batch, const StepInputs& inputs) override;
  void compute(Action action) override;
  /// Sums parameter by parameter in arena order, so the result does not depend on the cuts.
  double exchange_norm() override;
  size_t intervals() const override;

 private:
  /// The compiled graph for micro-batches of one size.
  struct MicroBatchGraph {
    std::unique_ptr<Executable> executable;
    Buffer prepared;
    int64_t prepared_forward = -1;  ///< the step for which the parameters were prepared
    int64_t prepared_backward = -1;
  };
  struct MicroBatch {
    int64_t first = 0;
    int64_t size = 0;
    MicroBatchGraph* graph = nullptr;
    std::unique_ptr<Context> context;
  };
  /// What the stage needs for one batch size.
  struct Plan {
    std::vector<MicroBatch> micro_batches;  ///< those that have samples
    std::unique_ptr<Executable> weight_gradients;
    std::unique_ptr<Context> weight_gradients_context;
    uint64_t generation = 0;  ///< of the memory to which the contexts are bound
  };
  using Run = std::function<void(Context&, Phase)>;

  size_t stages() const { return exchange_.forward.size(); }
  /// Calls work() on one stage after the other, in order; the other stages wait.
  void in_order(const std::function<void()>& work);
  Plan& plan_for(int64_t batch);
  void make_plan(Plan& plan, int64_t batch);
  void bind(Plan& plan);
  MicroBatchGraph& micro_batch_graph(int64_t size);
  void set_micro_batch_inputs();
  void clear_sums();
  void act(Action action, const Run& run);
  void run_micro_batch(MicroBatch& micro_batch, Phase phase, const Run& run);
  void wait_for(const Progress& progress, int64_t count);
  /// Runs all computations of one step, without the update.
  void run_all(const BatchView& batch, const StepInputs& inputs, const Run& run);

  size_t stage_;
  StageExchange& exchange_;
  Graph weight_gradients_;
  std::map<int64_t, MicroBatchGraph> graphs_;
  std::map<int64_t, Plan> plans_;
  Buffer memory_;                 ///< of activations
  size_t micro_batch_bytes_ = 0;  ///< of one micro-batch in flight
  size_t in_flight_;
  int64_t steps_ = 0;
  uint64_t resets_ = 0;
  // State of the current step.
  Plan* plan_ = nullptr;
  int64_t begin_ = 0;  ///< micro-batches done in earlier steps
  size_t next_forward_ = 0;
  size_t next_backward_ = 0;
};

}  // namespace telar
