#pragma once

#include <optional>
#include <string>
#include <vector>

#include "telar/graph/actions.h"
#include "telar/graph/mesh.h"
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
  /// Bytes a second that a thread reads and writes beyond its own caches, and that pass from one process to
  /// another: plausible numbers, unless they were measured (measured_program()).
  double memory_speed = 1e10;
  double link_speed = 1e10;
};

/// Gradients that are exchanged together: consecutive parameters, in the order in which gradients become
/// ready.
struct Bucket {
  std::vector<std::string> parameters;
  std::string group = kAllWorkers;  ///< over which they are summed
};

/// A name for a division of the workers into groups, of those that differ only along these axes of the mesh.
struct WorkerGroup {
  std::string name;
  Axes along;
};

/// Who updates what several workers keep: each of them the whole of it, in its own memory; or each a share of
/// every bucket, of what the memory of its process has, or of what all workers together have. Then it keeps
/// optimizer state only of its share, and processes exchange the updated parameters.
///
/// Which bytes a share has, follows from the layout of the memory (Group::shard, Group::part).
enum class Update : uint8_t { whole, of_process, of_all };

/// What a worker keeps of a parameter, of its gradient and of its optimizer state: the whole, or one of the
/// parts that the members of a group keep, in the order of their ranks.
struct Holding {
  std::string variable;
  Shape shape;                       ///< of the whole variable, canonical
  std::string divided = {};          ///< the group among whose members it is divided; empty: it is kept whole
  size_t axis = 0;                   ///< along which it is divided, into nearly equal parts (equal_parts())
  int64_t unit = 1;                  ///< of whose multiples the parts are
  std::string copies = kAllWorkers;  ///< the group whose members keep the same
  Update update = Update::whole;     ///< the same for all that a worker keeps

  bool operator==(const Holding&) const = default;
};

/// A value that passes from a pipeline stage to one of another process, one micro-batch after another; from
/// worker to worker of the same pipeline.
struct Crossing {
  std::string value;    ///< the name under which graphs deliver and read it: "%28"
  int64_t from = 0;     ///< stages
  int64_t to = 0;       ///< the first of its process that needs the value
  bool forward = true;  ///< whether it is delivered before the graph's `pause`
  int64_t number = 0;   ///< of all crossings of the same graphs in a pipeline

  bool operator==(const Crossing&) const = default;
};

/// What a process computes of every batch: parts [begin, end) of `of` equal parts.
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

/// Where a worker has what it keeps: in a memory of its own, or in one with all workers of its process.
enum class StateHome : uint8_t { of_worker, of_process };

/// What workers do in the steps of a job after the first ones. A pipeline has no such phase.
struct LaterPhase {
  int64_t after = 0;  ///< the last step before it
  Graph gradient;
  std::vector<ScheduledAction> schedule;
};

/// What a kind of workers runs. The gradient graph and the schedule are those of its first phase.
struct WorkerProgram {
  Graph gradient;
  std::vector<ScheduledAction> schedule;
  Graph update = {};
  Graph evaluation = {};
  Graph prediction = {};
  Graph weight_gradients = {};         ///< of a pipeline stage: computed once for the whole batch
  std::vector<Holding> holdings = {};  ///< in their order in the arenas
  StateHome home = StateHome::of_worker;
  /// Of a pipeline stage: what it sends to and receives from stages of other processes when it runs the
  /// gradient, evaluation and prediction graphs.
  std::vector<Crossing> crossings = {};
  std::vector<Crossing> evaluation_crossings = {};
  std::vector<Crossing> prediction_crossings = {};
  std::vector<LaterPhase> later = {};  ///< in their order; only in lockstep
};

/// How the workers of a program work together in time.
struct Cooperation {
  enum class Kind : uint8_t {
    lockstep,  ///< all of them make each step together
    rounds,    ///< an update takes all parts of a piece of work, one for each worker
    free       ///< each at its own pace
  };
  Kind kind = Kind::lockstep;
  int64_t backups = 0;     ///< of rounds: additional workers; of each part, the first contribution counts
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

/// The result of a strategy: what the workers of all processes do. Workers whose graphs and schedule are the
/// same are of one kind, so that a program is no longer for many workers than for two. Contains no state.
struct Program {
  std::string strategy;
  Mesh mesh = {};
  std::vector<WorkerProgram> kinds = {};
  std::vector<size_t> kind_of_worker = {};  ///< indices of `kinds`; empty: all workers are of the first
  std::vector<WorkerGroup> groups = {};     ///< besides the group of all workers
  std::vector<StoreProgram> stores = {};
  /// The group whose members compute a batch together, so that they exchange samples; empty: each worker
  /// computes its samples alone.
  std::string batch_group = {};
  std::vector<Bucket> buckets = {};
  Graph update;  ///< of everything, as `evaluation` and `prediction`; workers may keep parts of it
  Graph evaluation;
  Graph prediction;
  std::vector<ParameterInfo> parameters;
  std::vector<std::string> metrics;
  Cooperation cooperation = {};
  int64_t micro_batches = 0;  ///< of a pipeline's batch; 0: the workers are replicas, not stages
  /// Of a pipeline: the group whose members are its stages, in their order.
  std::string stage_group = kAllWorkers;
  LeastSamples least = {};

  /// What the worker of this number runs.
  const WorkerProgram& worker(int64_t number) const {
    return kinds.at(kind_of_worker.empty() ? 0 : kind_of_worker.at(static_cast<size_t>(number)));
  }
  /// A gradient graph: inputs and batch size are the same for all.
  const Graph& gradient_graph() const { return kinds.front().gradient; }
  /// The axes of a group. Throws Error (run) when there is no such group.
  Axes along(const std::string& group) const;
  /// Readable text of all of it; equal programs have equal text.
  std::string str() const;
};

/// The program's store. Throws Error (run) if it has none or several, because those who run programs connect
/// a worker with one.
const StoreProgram& only_store(const Program& program);
/// The phases of a kind: 0 is its first one. That of a step of the job, and what workers do in it.
size_t phases_of(const WorkerProgram& kind);
size_t phase_at(const WorkerProgram& kind, int64_t step);
const Graph& gradient_in(const WorkerProgram& kind, size_t phase);
const std::vector<ScheduledAction>& schedule_in(const WorkerProgram& kind, size_t phase);
/// Whether the workers of a schedule train on their own until their parameters are averaged. Those of a
/// program: whether they ever do.
bool trains_alone(const std::vector<ScheduledAction>& schedule);
bool trains_alone(const Program& program);

/// "push_difference every 10 at servers", "forward 3", as printed by Program::str().
std::string text_of(const ScheduledAction& scheduled);
/// The members of the group with this name to which a worker belongs. Throws Error (run) when there is no
/// such group.
std::vector<int> members_of(const Program& program, const std::string& group, int64_t worker);
/// What a worker keeps of a variable.
Piece piece_of(const Program& program, const Holding& holding, int64_t worker);

/// The shares into which the workers divide a batch: one for each, or for each pipeline. Which of them a
/// worker computes, and those of a process.
int64_t shares_of(const Program& program);
int64_t share_of(const Program& program, int64_t worker);
BatchShare shares_of(const Program& program, int64_t process);
/// "in rounds with 1 backup", as printed by Program::str().
std::string text_of(const Cooperation& cooperation);

}  // namespace telar
