#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "telar/core/buffer.h"
#include "telar/runtime/common_memory.h"
#include "telar/runtime/pipeline_exchanges.h"
#include "telar/runtime/stage_link.h"
#include "telar/runtime/stage_pass.h"
#include "telar/runtime/step_context.h"

namespace telar {

/// What a pipeline stage computes with in a step, besides what each worker has: its layers, for the whole
/// batch, one micro-batch after another. Evaluation and prediction pass through the stages, too.
///
/// Every micro-batch has its own context. The schedule limits how many micro-batches are in flight, that is,
/// between forward and backward. There is activation memory for this number of contexts, which evaluation and
/// prediction use, too.
class PipelineStage {
 public:
  /// `worker`: the context of this stage; it and `exchange` must outlive the stage. Throws Error (run) unless
  /// the schedule takes all micro-batches in order, each forward before it goes back.
  PipelineStage(StepContext& worker, PipelineExchange& exchange);

  /// For the parameters that this stage trains.
  std::vector<std::pair<std::string, TensorLayout>> wanted_layouts(int64_t batch) const;

  /// Prepares the worker's step. The first step with a batch size compiles the graphs, one stage after the
  /// other.
  void begin_step();
  /// The actions of a stage, in the worker's step. They wait for the neighbours that deliver their inputs,
  /// and do nothing for a micro-batch without samples.
  void forward(size_t micro_batch);
  void backward(size_t micro_batch);
  void weight_gradients();
  /// Exchange with stages of other processes: see action::receive_forward and those that follow it.
  void receive(bool forward, size_t micro_batch);
  void send(bool forward, size_t micro_batch);
  /// Advances what is being sent, without waiting.
  void poll();
  /// Its part of the evaluation of a batch.
  StagePass& evaluation() { return *evaluation_; }
  /// The same for prediction. Returns the model's output from the first stage of each process, and nothing
  /// from the others.
  std::vector<float> predict(const BatchView& batch);
  /// Sum of the squares of all gradients of all stages. Each parameter's squares come from the stage that
  /// keeps it, and are added up in the order of the parameters, so the result does not depend on the cuts.
  double sum_of_squares();
  /// Makes the update of what this stage keeps, together with the other stages of this process. Returns false
  /// if a gradient was not finite.
  bool update(double sum_of_squares);

  /// Upper limit for the intervals of a step, if running the gradient graph once takes `of_graph`.
  size_t intervals(size_t of_graph) const;
  /// Of the micro-batches; the first stage also counts what passes between the stages.
  size_t activation_bytes() const;

 private:
  /// The compiled graph for micro-batches of one size.
  struct MicroBatchGraph {
    std::unique_ptr<Executable> executable;
    Buffer prepared;
    int64_t prepared_forward = -1;  ///< the step for which the parameters were prepared
    int64_t prepared_backward = -1;
  };
  struct MicroBatch {
    MicroBatchPart part;
    MicroBatchGraph* graph = nullptr;
    std::unique_ptr<Context> context;
  };
  /// What the stage needs for one batch size.
  struct Plan {
    std::vector<MicroBatch> micro_batches;  ///< see micro_batch_parts()
    std::unique_ptr<Executable> weight_gradients;
    std::unique_ptr<Context> weight_gradients_context;
    StageMessages messages;
    uint64_t generation = 0;  ///< of the memory to which the contexts are bound; 0: to none yet
  };

  Plan& plan_for(const SampleCounts& batch);
  void make_plan(Plan& plan, const SampleCounts& batch);
  void bind(Plan& plan);
  /// Among those of its pipeline in this process.
  size_t index_here() const { return link_.stage() - exchange_.here.begin; }
  /// Of the memory to which contexts are bound.
  uint64_t generation() const { return exchange_.generation() + activations_.generation(); }
  MicroBatchGraph& micro_batch_graph(const SampleCounts& samples);
  void set_micro_batch_inputs();
  void clear_sums();
  void run_micro_batch(MicroBatch& micro_batch, Phase phase, StepPhase direction);
  /// Squares of the gradients of what this stage keeps, by parameter; of a divided one, of all its pieces.
  std::vector<double> kept_squares();
  void add_of_members(Group& group, std::vector<double>& values);

  StepContext& worker_;
  StageExchange& exchange_;
  StageUpdates& updates_;
  StageLink link_;
  Graph weight_gradients_;
  CommonMemory activations_;
  std::optional<StagePass> evaluation_;
  std::optional<StagePass> prediction_;
  std::vector<float> rows_;  ///< doubles in two floats, by member of a group that gathers them and parameter
  std::map<SampleCounts, MicroBatchGraph> graphs_;
  std::map<SampleCounts, Plan> plans_;
  size_t micro_batch_bytes_ = 0;  ///< of one micro-batch in flight
  size_t in_flight_;
  int64_t steps_ = 0;  ///< including those that only compute
  uint64_t resets_ = 0;
  // State of the current step.
  Plan* plan_ = nullptr;
};

/// Sums the times of equal operations over the micro-batches of a step.
std::vector<OperationTime> summed_over_micro_batches(const std::vector<OperationTime>& times);

}  // namespace telar
