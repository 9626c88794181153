#include "telar/graph/forward_part.h"
#include "telar/strategy/buckets.h"
#include "telar/strategy/data_parallel.h"
#include "telar/strategy/gather_parameters.h"
#include "telar/strategy/pieces.h"
#include "telar/strategy/synchronise_batch_norm.h"

namespace telar {

namespace {

constexpr const char* kOwn = "own";  // the group of a worker alone: nobody else keeps its pieces

/// The parameters that are divided. One that is too small, or has fewer rows than there are workers, stays
/// whole; so do running statistics.
Divisions divisions_of(const std::vector<ParameterInfo>& parameters, int64_t workers, int64_t whole_below) {
  Divisions divisions;
  for (const ParameterInfo& parameter : parameters)
    if (parameter.trainable && parameter.shape[0] >= workers && parameter.shape.elements() >= whole_below)
      divisions[parameter.name] = {};
  return divisions;
}

/// The pieces that a worker keeps.
Pieces pieces_of(const Program& program, const std::vector<Holding>& holdings, int64_t worker) {
  Pieces pieces;
  for (const Holding& holding : holdings)
    if (!holding.divided.empty()) pieces[holding.variable] = piece_of(program, holding, worker);
  return pieces;
}

WorkerProgram worker_of(Program& program, const TrainingStep& step, const Pieces& pieces,
                        const Attributes& options) {
  const int64_t workers = program.mesh.workers();
  const size_t bytes = bucket_bytes(options);
  const auto gathered = [&](const Graph& graph) {
    return gather_parameters(graph, pieces, kAllWorkers, workers, bytes);
  };
  Graph gradient = gradient_of(gathered(forward_of(step)), step);
  if (options.integer("stage") == 3) gradient = gather_again_in_backward(gradient);
  if (synchronises_batch_norm(options)) {
    program.least.part = 1;
    gradient = synchronise_batch_norm(gradient, [&](const std::string&) {
      return std::optional<StatisticsGroup>({kAllWorkers, workers});
    });
  }
  program.buckets = make_buckets(program.parameters, gradient, bytes, [&](const std::string& name) {
    return std::string(pieces.contains(name) ? "" : kAllWorkers);
  });
  return {insert_bucket_reductions(gradient, program.buckets), data_parallel_schedule(),
          update_of_pieces(step.update, pieces), gathered(step.evaluation), gathered(step.prediction)};
}

/// Workers whose pieces have the same sizes are of one kind. As the larger pieces come first, there are at
/// most as many kinds as parameters, and one.
void add_workers(Program& program, const TrainingStep& step, const Attributes& options) {
  const int64_t workers = program.mesh.workers();
  const Divisions divisions = divisions_of(program.parameters, workers, options.integer("whole_below"));
  const std::vector<Holding> divided = holdings_of(program, divisions, kAllWorkers, kOwn);
  std::map<std::vector<int64_t>, size_t> known;  // kinds, by the sizes of their pieces
  for (int64_t w = 0; w < workers; ++w) {
    const Pieces pieces = pieces_of(program, divided, w);
    std::vector<int64_t> sizes;
    for (const auto& [name, piece] : pieces) sizes.push_back(piece.floats());
    const auto [kind, fresh] = known.emplace(std::move(sizes), program.kinds.size());
    program.kind_of_worker.push_back(kind->second);
    if (fresh) program.kinds.push_back(worker_of(program, step, pieces, options));
  }
  for (WorkerProgram& kind : program.kinds)
    kind.holdings = holdings_of(program, divisions, kAllWorkers, kOwn);
}

/// Synchronous data parallelism whose workers divide the state among them (Rajbhandari et al., "ZeRO: Memory
/// Optimizations Toward Training Trillion Parameter Models", 2020).
///
/// Stage 1: as mirrored, but each worker keeps optimizer state only of the part of each bucket that it
/// updates.
///
/// Stages 2 and 3: each worker keeps a piece of every large parameter, of its gradient and of its optimizer
/// state. The graphs gather a parameter before its first reader, so that its gradient is summed to the pieces
/// as soon as it is complete. In stage 2, the gathered parameters live until the end of backward; in stage 3,
/// until their last reader in forward, and again in backward.
Program sharded_program(const TrainingStep& step, const Cluster& cluster, const Attributes& options,
                        const std::vector<OperationCost>& /*costs*/) {
  if (options.integer("stage") == 1) {
    Program program = data_parallel_program("sharded", step, cluster, options);
    share_memory(program, Update::of_all);
    return program;
  }
  Program program = program_of(step, "sharded");
  program.mesh = Mesh({{kDataAxis, workers_of("sharded", cluster)}}, cluster.processes);
  program.groups = {{kOwn, {}}};
  add_workers(program, step, options);
  return program;
}

}  // namespace

void register_sharded(StrategyRegistry& registry) {
  StrategyType type;
  type.name = "sharded";
  type.summary =
      "data parallel like mirrored, but the replicas divide the optimizer state, gradients and parameters";
  type.count = "replicas";
  type.keeps_parts = true;
  type.on_gpus = false;
  type.options = {
      {.name = "stage",
       .fallback = int64_t{1},
       .rule = {.least = 1, .most = 3},
       .help =
           "What the replicas of all processes divide among them. 1: optimizer state; 2: gradients, too; 3: parameters, too."},
      replicas_option(),
      {.name = "whole_below",
       .fallback = int64_t{4096},
       .rule = {.least = 0},
       .help = "In stages 2 and 3, a parameter with fewer values stays whole in every replica."},
      batch_norm_option(),
      bucket_option()};
  type.workers = data_parallel_workers;
  type.rewrite = sharded_program;
  registry.add(std::move(type));
}

}  // namespace telar
