#pragma once

#include <optional>
#include <string>
#include <vector>

#include "telar/graph/piece.h"
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
  int servers = 0;                  ///< parameter servers
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
  push_gradient,     ///< sends the gradient sums since the last push to the servers
  push_difference,   ///< sends samples × (parameters as pulled last − parameters) to the servers
  pull,              ///< takes the parameters that the servers have
  // Of a pipeline's stage; the n-th `forward` or `backward` of a schedule is for micro-batch n.
  forward,          ///< runs the gradient graph up to its `pause`, when its inputs have been delivered
  backward,         ///< runs the gradient graph from its `pause` on
  weight_gradients  ///< runs the graph of weight gradients over all micro-batches at once
};

/// An action of the schedule: done in every step, or in those whose number (from 1, since the worker began) `every` divides.
struct ScheduledAction {
  ScheduledAction(Action what, int64_t steps = 1) : action(what), every(steps) {}
  Action action;
  int64_t every;
};

struct WorkerProgram {
  int device = 0;  ///< index into Cluster::devices
  Graph gradient;
  std::vector<ScheduledAction> schedule;
  Graph weight_gradients;  ///< of a pipeline's stage: those that are computed once for the whole batch
};

/// What one parameter server holds, and its update of it: an update graph over the pieces, by their names.
struct ServerProgram {
  std::vector<Piece> pieces;
  Graph update;
};

/// The parameter servers of a program. Each applies its update to the sums that workers push.
struct ServerSide {
  std::vector<ServerProgram> servers;
  Graph update;  ///< of all of them together, over whole variables
  /// True: the workers push together, and one update is made of the sum of what they push. False: one of each push.
  bool rounds = false;
  std::optional<double> learning_rate;  ///< of the servers' update; without: that of the step
};

/// What a strategy makes of a training step: for every worker of a process its graphs, with communication operations inserted,
/// and the schedule on which they run. Holds no state.
struct Program {
  std::string strategy;
  std::vector<WorkerProgram> workers;
  std::vector<Bucket> buckets;
  Graph update;  ///< that workers apply themselves
  Graph evaluation;
  Graph prediction;
  std::vector<ParameterInfo> parameters;  ///< in the order in which they lie in the arenas
  std::vector<std::string> metrics;
  std::optional<ServerSide> servers = std::nullopt;
  int64_t micro_batches = 0;  ///< into which a pipeline cuts a batch; 0: its workers are replicas, not stages

  /// The first worker's gradient graph: inputs and batch size are the same for all.
  const Graph& gradient_graph() const { return workers.front().gradient; }
  /// Readable text: buckets, schedules and graphs; equal programs print alike.
  std::string str() const;
};

/// Name of an action as printed.
std::string name_of(Action action);

}  // namespace telar
