#pragma once

#include <optional>
#include <string>
#include <vector>

#include "telar/graph/actions.h"
#include "telar/graph/piece.h"
#include "telar/graph/training_step.h"

namespace telar {

/// A device of the cluster, as a strategy sees it.
struct DeviceSpec {
  std::string kind = "cpu";
  int threads = 1;
  std::vector<int> cores;  ///< cores to run on; empty: the operating system chooses
};

/// The devices, processes and servers available for training.
struct Cluster {
  std::vector<DeviceSpec> devices;    ///< of each process
  int processes = 1;                  ///< processes that train together, each with the same number of devices
  int process = 0;                    ///< the number of this process among them
  int servers = 0;                    ///< number of parameter servers
  std::vector<int> all_threads = {};  ///< of the devices of all processes, if a strategy must know them
};

/// Gradients that are exchanged together: consecutive parameters, in the order in which gradients become
/// ready.
struct Bucket {
  std::vector<std::string> parameters;
  std::string group = kAllWorkers;  ///< over which they are summed
};

/// A name for a division of the workers into groups: "data" for those that train the same pieces on other
/// samples, "model" for those that share a batch and have a piece each.
struct WorkerGroups {
  std::string name;
  std::vector<std::vector<int>> members;  ///< numbers of workers, ascending; each worker is in one group
};

/// What a worker keeps of a parameter, of its gradient and of its optimizer state.
struct Holding {
  Piece piece;
  std::string copies = kAllWorkers;  ///< the group whose members keep the same piece

  bool operator==(const Holding&) const = default;
};

/// A value that passes from a pipeline stage to one of another process, one micro-batch after another.
struct Crossing {
  std::string value;    ///< the name under which graphs deliver and read it: "%28"
  int from = 0;         ///< numbers of workers among all
  int to = 0;           ///< the first of its process that needs the value
  bool forward = true;  ///< whether it is delivered before the graph's `pause`
  int number = 0;       ///< of all crossings of the same graphs

  bool operator==(const Crossing&) const = default;
};

/// The share of every batch that a process computes: parts [begin, end) of `of` equal parts.
struct BatchShare {
  int64_t begin = 0;
  int64_t end = 1;
  int64_t of = 1;
};

/// The samples that the statistics of a step's batch normalisation need: with one value for each sample and
/// channel, the normalised value of a single sample is 0, whatever it is.
struct LeastSamples {
  std::string layer = {};  ///< the first such layer; empty: the model has none
  int64_t batch = 1;       ///< of a batch
  int64_t part = 1;        ///< of each part of it that a worker computes at once, if it has any
};

struct WorkerProgram {
  int device = 0;  ///< index into Cluster::devices
  Graph gradient;
  std::vector<ScheduledAction> schedule;
  Graph weight_gradients;  ///< of a pipeline stage: the gradients that are computed once for the whole batch
  std::vector<Holding> holdings = {};  ///< what the worker keeps, in its order in the arenas
  /// Of a worker with a memory of its own (Program::shares_memory): its update, evaluation and prediction.
  Graph update = {};
  Graph evaluation = {};
  Graph prediction = {};
  /// Of a pipeline stage: what it sends to and receives from stages of other processes when it runs the
  /// gradient, evaluation and prediction graphs.
  std::vector<Crossing> crossings = {};
  std::vector<Crossing> evaluation_crossings = {};
  std::vector<Crossing> prediction_crossings = {};
};

/// How the workers of a program work together in time.
struct Cooperation {
  enum class Kind : uint8_t {
    lockstep,  ///< all of them make each step together
    rounds,    ///< an update takes the contributions of as many workers as there are parts of a batch
    free       ///< each at its own pace
  };
  Kind kind = Kind::lockstep;
  int64_t backups = 0;     ///< of rounds: additional workers; the first contributions count
  int64_t staleness = -1;  ///< if free: batches by which a worker may be ahead of the slowest; -1: no limit
  int64_t work_steps = 1;  ///< batches in a piece of work, which is pushed at once
};

/// What one parameter server keeps, and its update: an update graph over the pieces, by their names.
struct ServerProgram {
  std::vector<Piece> pieces;
  Graph update;
};

/// A store with which workers exchange: parameter servers that keep the pieces of all parameters. In rounds,
/// each makes one update from the sum of all workers' pushes; otherwise each push is an update of its own.
struct StoreProgram {
  std::string name = kServers;  ///< by which actions refer to it
  std::vector<ServerProgram> servers = {};
  Graph update = {};                         ///< the update of all servers together, over whole variables
  std::optional<double> learning_rate = {};  ///< of the servers' update; if absent, that of the step
};

/// The result of a strategy: for every worker of a process, its graphs with communication operations
/// inserted, and their schedule. Contains no state.
struct Program {
  std::string strategy;
  std::vector<WorkerProgram> workers = {};
  int first_worker = 0;                   ///< number of this process's first worker among all
  std::vector<WorkerGroups> groups = {};  ///< besides the group of all workers
  std::vector<StoreProgram> stores = {};
  /// The group whose members compute a batch together, so that they exchange samples; empty: each worker
  /// computes its samples alone.
  std::string batch_group = {};
  std::vector<Bucket> buckets = {};
  Graph update;  ///< the update that workers apply themselves
  Graph evaluation;
  Graph prediction;
  std::vector<ParameterInfo> parameters;
  std::vector<std::string> metrics;
  Cooperation cooperation = {};
  /// The workers of a process have what they keep in one memory, and each updates a part of it, by the
  /// program's graphs. Otherwise each has its own, and graphs of its own.
  bool shares_memory = false;
  /// With shares_memory: each worker keeps optimizer state only of the part of each bucket that it alone
  /// updates (Group::part); processes then exchange the updated parameters.
  bool divides_state = false;
  int64_t micro_batches = 0;  ///< of a pipeline's batch; 0: the workers are replicas, not stages
  /// Of a pipeline: the group whose members are its stages, in their order.
  std::string stage_group = kAllWorkers;
  std::optional<BatchShare> share = std::nullopt;  ///< absent: an equal share for each process
  LeastSamples least = {};

  /// The first worker's gradient graph: inputs and batch size are the same for all.
  const Graph& gradient_graph() const { return workers.front().gradient; }
  /// The graphs of a worker.
  const Graph& update_of(size_t worker) const { return shares_memory ? update : workers[worker].update; }
  const Graph& evaluation_of(size_t worker) const {
    return shares_memory ? evaluation : workers[worker].evaluation;
  }
  const Graph& prediction_of(size_t worker) const {
    return shares_memory ? prediction : workers[worker].prediction;
  }
  /// Readable text of buckets, schedules and graphs; equal programs have equal text.
  std::string str() const;
};

/// The program's store. Throws Error (run) if it has none or several, because those who run programs connect
/// a worker with one.
const StoreProgram& only_store(const Program& program);
/// "push_difference every 10 at servers", "forward 3", as printed by Program::str().
std::string text_of(const ScheduledAction& scheduled);
/// The members of the group with this name to which a worker of this process belongs. Throws Error (run) when
/// there is no such group.
const std::vector<int>& members_of(const Program& program, const std::string& group, size_t worker);
/// The numbers of the workers that are the stages of the pipeline of a worker of this process, and which of
/// them it is.
std::vector<int> stages_of(const Program& program, size_t worker);
size_t stage_of(const Program& program, size_t worker);
/// The number of the pipeline of which a worker is a stage, and so of its share of a batch. `number`: of the
/// worker among all.
size_t pipeline_of(const Program& program, int number);
/// "in rounds with 1 backup", as printed by Program::str().
std::string text_of(const Cooperation& cooperation);

}  // namespace telar
