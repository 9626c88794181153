#pragma once

#include <vector>

#include "telar/graph/program.h"
#include "telar/strategy/strategy.h"

namespace telar {

/// A gradient graph seen from where it may be cut: which nodes belong to which stage, and what goes from one to the other.
///
/// Forward nodes are cut by their order, so that stage s has those from its cut to the next one. A backward node belongs to the
/// stage of the forward node that it differentiates; as backward nodes come in the reverse order, they are cut by order, too.
/// Nodes that depend on no sample (constants, parameters converted to bf16) belong to no stage: each stage that reads one has
/// its own.
class StageCuts {
 public:
  /// Throws Error (run) for a step whose forward part is not known.
  explicit StageCuts(const TrainingStep& step);

  /// Forward nodes before which a cut may stand: every value that crosses has the batch as its axis 0, no parameter is read on
  /// both sides, and an activation stays with the layer before it.
  const std::vector<size_t>& places() const { return places_; }

  /// The stage of every node of the gradient graph for cuts (ascending places, one less than stages); −1 for a node that
  /// depends on no sample.
  std::vector<int> stages(const std::vector<size_t>& cuts) const;

  /// Bytes that cross a cut in both directions, for the graph's batch.
  double crossing_bytes(size_t cut) const;

  /// True for a value that is made anew for each batch size and whose axis 0 is the batch.
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
  size_t forward_;               // nodes that come first and are forward
  std::vector<bool> batched_;    // of values
  std::vector<bool> depends_;    // of values: on a sample
  std::vector<bool> free_;       // of nodes: depends on none
  std::vector<int> first_read_;  // of values: the first forward node that needs it, through free nodes
  std::vector<int> home_;        // of backward nodes: the last forward node that they are bound to
  std::vector<size_t> places_;
};

/// Seconds of each node of the gradient graph in one step: as measured, or, without measurements, from its multiplications and
/// bytes at a plausible speed. `left`: nodes that run once for the whole batch.
std::vector<double> node_seconds(const Graph& gradient, const std::vector<OperationCost>& measured,
                                 const std::vector<bool>& left);

/// The time of each kind of work of a stage.
struct StageSeconds {
  double forward = 0;           ///< of one micro-batch
  double backward = 0;          ///< of one micro-batch
  double weight_gradients = 0;  ///< once in a step, with the update
};

/// What each stage of a pipeline does for one step: one forward, one backward (Narayanan et al., "Memory-efficient
/// pipeline-parallel DNN training", 2021, PipeDream-Flush), with 2(p − 1 − s) micro-batches ahead in stage s of p instead of
/// p − 1 − s (the warm-up of ZB-H2: Qi et al., "Zero bubble pipeline parallelism", 2023): a stage whose micro-batches take a little
/// longer then holds up nobody, for the memory of as many more micro-batches in flight.
std::vector<Action> one_forward_one_backward(int stage, int stages, int64_t micro_batches);

/// Seconds of one step if every stage runs its schedule and waits for what it reads.
double simulate_step(const std::vector<StageSeconds>& stages, int64_t micro_batches);

}  // namespace telar
