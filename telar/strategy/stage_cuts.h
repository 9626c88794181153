#pragma once

#include <vector>

#include "telar/graph/program.h"
#include "telar/strategy/strategy.h"

namespace telar {

/// By value of a graph: whether axis 0 is the batch.
std::vector<bool> batch_is_outermost(const Graph& graph);

/// A gradient graph, analysed for cutting: the stage of each node, and what passes from one stage to the
/// other.
///
/// Forward nodes are cut by their order: stage s has those from its cut to the next one. A backward node
/// belongs to the stage of the forward node that it differentiates. As backward nodes come in the reverse
/// order, they are cut by order, too. Nodes that depend on no sample (constants, parameters converted to
/// bf16) belong to no stage: each stage that reads one has its own copy.
class StageCuts {
 public:
  /// Throws Error (run) for a step whose forward part is not known.
  explicit StageCuts(const TrainingStep& step);

  /// Forward nodes before which a cut is possible: every value that crosses the cut has the batch as axis 0,
  /// no parameter is read on both sides, and an activation stays with the layer before it.
  const std::vector<size_t>& places() const { return places_; }

  /// The stage of every node of the gradient graph for these cuts (ascending places, one fewer than stages);
  /// −1 for a node that depends on no sample.
  std::vector<int> stages(const std::vector<size_t>& cuts) const;

  /// Bytes that cross a cut in both directions, for the graph's batch.
  double crossing_bytes(size_t cut) const;

  /// Whether axis 0 of the value is the batch.
  bool batched(ValueId value) const { return batched_[static_cast<size_t>(value)]; }
  bool depends_on_samples(ValueId value) const { return depends_[static_cast<size_t>(value)]; }

 private:
  struct Crossing {
    bool allowed = true;
    double bytes = 0;
  };
  size_t backward_begin(size_t cut) const;
  Crossing crossing(size_t cut) const;

  const Graph& graph_;
  size_t forward_;               // number of forward nodes, which come first
  std::vector<bool> batched_;    // by value: axis 0 is the batch
  std::vector<bool> depends_;    // by value: depends on a sample
  std::vector<bool> free_;       // by node: depends on no sample
  std::vector<int> first_read_;  // by value: the first forward node that needs it, through free nodes
  std::vector<int> home_;        // by backward node: the last forward node that it is bound to
  std::vector<size_t> places_;
};

/// Seconds of each node of the gradient graph in one step: as measured or, without measurements, estimated
/// from its multiplications at a plausible speed and its bytes. `left`: nodes that run once for the whole
/// batch.
std::vector<double> node_seconds(const Graph& gradient, const std::vector<OperationCost>& measured,
                                 const std::vector<bool>& left, double memory_speed);

/// Time of each kind of work of a stage.
struct StageSeconds {
  double forward = 0;           ///< of one micro-batch
  double backward = 0;          ///< of one micro-batch
  double weight_gradients = 0;  ///< once per step, with the update
};

/// The actions of a pipeline stage in one step: one forward, one backward (Narayanan et al.,
/// "Memory-efficient pipeline-parallel DNN training", 2021, PipeDream-Flush). Stage s of p runs 2(p − 1 − s)
/// micro-batches ahead instead of p − 1 − s (the warm-up of ZB-H2: Qi et al., "Zero bubble pipeline
/// parallelism", 2023). A stage whose micro-batches take slightly longer then does not hold up the others.
/// The cost is memory for as many additional micro-batches in flight.
std::vector<ScheduledAction> one_forward_one_backward(int stage, int stages, int64_t micro_batches);

/// Duration of one step in seconds, if every stage runs its schedule and waits for its inputs.
double simulate_step(const std::vector<StageSeconds>& stages, int64_t micro_batches);

}  // namespace telar
