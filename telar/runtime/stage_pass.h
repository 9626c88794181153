#pragma once

#include <map>
#include <memory>
#include <vector>

#include "telar/runtime/common_memory.h"
#include "telar/runtime/stage_link.h"

namespace telar {

/// The part of a stage in evaluation or prediction, when stages keep their layers. Micro-batches pass through
/// the stages one after another, forward only, so all of them share the memory.
class StagePass {
 public:
  /// `activations` and `graph`: those of this stage. All arguments must outlive this object.
  StagePass(StepContext& worker, StageExchange& exchange, CommonMemory& activations, const GraphForms& graph,
            const std::vector<Crossing>& crossings);

  /// Runs the graph over a batch; all stages call it. Returns the graph's output "prediction" of all samples;
  /// empty if it has none.
  std::vector<float> run(const BatchView& batch);

 private:
  struct MicroBatch {
    MicroBatchPart part;
    Executable* executable = nullptr;
    std::unique_ptr<Context> context;
  };
  struct Plan {
    std::vector<MicroBatch> micro_batches;
    StageMessages messages;
    uint64_t generation = 0;  ///< of the memory to which the contexts are bound; 0: to none yet
  };

  Executable& executable(const SampleCounts& samples);
  Plan& plan_for(const SampleCounts& batch);
  void bind(Plan& plan);
  /// Of the memory to which contexts are bound.
  uint64_t generation() const { return exchange_.generation() + activations_.generation(); }

  StepContext& worker_;
  StageExchange& exchange_;
  CommonMemory& activations_;
  StageLink link_;
  GraphForms graph_;
  std::map<SampleCounts, std::unique_ptr<Executable>> executables_;  ///< by the size of a micro-batch
  std::map<SampleCounts, Plan> plans_;
  uint64_t resets_ = 0;
};

}  // namespace telar
