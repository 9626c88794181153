#pragma once

#include <string>
#include <vector>

#include "telar/graph/training_step.h"

namespace telar {

/// A device of the cluster as a strategy sees it.
struct DeviceSpec {
  std::string kind = "cpu";
  int threads = 1;
  std::vector<int> cores;  ///< cores to run on; empty: wherever the operating system puts it
};

/// What exists to run on.
struct Cluster {
  std::vector<DeviceSpec> devices;  ///< of each process
  int processes = 1;                ///< that train together, with as many devices each
};

/// Gradients that are exchanged together: consecutive parameters in the order in which gradients become ready.
struct Bucket {
  std::vector<std::string> parameters;
};

/// What a worker does in each step, in order.
enum class Action : uint8_t {
  compute_gradient,  ///< runs the gradient graph over its part of the batch; buckets start inside it
  finish_exchange,   ///< waits until its shard of every bucket holds the sum over the group
  exchange_metrics,  ///< sums the metric buffers over the group
  exchange_norm,     ///< sums the squared gradient norm over the group (only when the update clips)
  update_shard,      ///< applies the optimizer to its shard of the parameters
  wait_for_all,      ///< until every member's shard is updated: the parameters are whole again
  // Of a pipeline's stage; the n-th `forward` or `backward` of a schedule is for micro-batch n.
  forward,          ///< runs the gradient graph up to its `pause`, when its inputs have been delivered
  backward,         ///< runs the gradient graph from its `pause` on
  weight_gradients  ///< runs the graph of weight gradients over all micro-batches at once
};

struct WorkerProgram {
  int device = 0;  ///< index into Cluster::devices
  Graph gradient;
  std::vector<Action> schedule;
  Graph weight_gradients;  ///< of a pipeline's stage: those that are computed once for the whole batch
};

/// What a strategy makes of a training step: for every worker of a process its graphs, with communication operations inserted,
/// and the schedule on which they run. Holds no state.
struct Program {
  std::string strategy;
  std::vector<WorkerProgram> workers;
  std::vector<Bucket> buckets;
  Graph update;
  Graph evaluation;
  Graph prediction;
  std::vector<ParameterInfo> parameters;  ///< in the order in which they lie in the arenas
  std::vector<std::string> metrics;
  int64_t micro_batches = 0;  ///< into which a pipeline cuts a batch; 0: its workers are replicas, not stages

  /// The first worker's gradient graph: inputs and batch size are the same for all.
  const Graph& gradient_graph() const { return workers.front().gradient; }
  /// Readable text: buckets, schedules and graphs; equal programs print alike.
  std::string str() const;
};

/// Name of an action as printed.
std::string name_of(Action action);

}  // namespace telar
