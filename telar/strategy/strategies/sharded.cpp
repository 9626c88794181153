#include "telar/graph/forward_part.h"
#include "telar/strategy/buckets.h"
#include "telar/strategy/data_parallel.h"
#include "telar/strategy/gather_parameters.h"
#include "telar/strategy/pieces.h"
#include "telar/strategy/synchronise_batch_norm.h"

namespace telar {

namespace {

constexpr const char* kOwn = "own";  // the group of a worker alone: nobody else keeps its pieces

/// A parameter that is too small, or has fewer rows than there are workers, stays whole; so do running
/// statistics.
Pieces pieces_of(const std::vector<ParameterInfo>& parameters, const PieceGroup& group, int64_t whole_below) {
  Pieces pieces;
  for (const ParameterInfo& parameter : parameters) {
    const int64_t rows = parameter.shape[0];
    if (!parameter.trainable || rows < group.members || parameter.shape.elements() < whole_below) continue;
    const auto bounds = equal_parts(rows, group.members);
    const auto rank = static_cast<size_t>(group.rank);
    pieces[parameter.name] = {parameter.name, parameter.shape, bounds[rank], bounds[rank + 1], 0};
  }
  return pieces;
}

void add_worker(Program& program, const TrainingStep& step, const PieceGroup& group,
                const Attributes& options) {
  const Pieces pieces = pieces_of(program.parameters, group, options.integer("whole_below"));
  const size_t bytes = bucket_bytes(options);
  const auto gathered = [&](const Graph& graph) { return gather_parameters(graph, pieces, group, bytes); };
  Graph gradient = gradient_of(gathered(forward_of(step)), step);
  if (options.integer("stage") == 3) gradient = gather_again_in_backward(gradient);
  if (synchronises_batch_norm(options)) {
    program.least.part = 1;
    gradient = synchronise_batch_norm(gradient, [&](const std::string&) {
      return std::optional<StatisticsGroup>({kAllWorkers, group.members});
    });
  }
  program.buckets = make_buckets(program.parameters, gradient, bytes, [&](const std::string& name) {
    return std::string(pieces.contains(name) ? "" : kAllWorkers);
  });
  program.workers.push_back(
      {static_cast<int>(program.workers.size()), insert_bucket_reductions(gradient, program.buckets),
       data_parallel_schedule(), Graph(), holdings_of(program, pieces, kOwn),
       update_of_pieces(step.update, pieces), gathered(step.evaluation), gathered(step.prediction)});
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
    program.divides_state = true;
    return program;
  }
  const int64_t workers = workers_of("sharded", cluster);
  const auto local = static_cast<int>(cluster.devices.size());
  Program program = program_of(step, "sharded");
  program.first_worker = cluster.process * local;
  program.groups = {{kOwn, {}}};
  for (int w = 0; w < static_cast<int>(workers); ++w) program.groups[0].members.push_back({w});
  for (int w = 0; w < local; ++w)
    add_worker(program, step, {kAllWorkers, program.first_worker + w, workers}, options);
  return program;
}

}  // namespace

void register_sharded(StrategyRegistry& registry) {
  StrategyType type;
  type.name = "sharded";
  type.summary =
      "data parallel like mirrored, but the replicas divide the optimizer state, gradients and parameters";
  type.count = "replicas";
  type.divides_state = true;
  type.on_gpus = false;
  type.options = {
      {.name = "stage",
       .fallback = int64_t{1},
       .rule = {.least = 1, .most = 3},
       .help =
           "What the replicas of all processes divide among them. 1: optimizer state; 2: gradients, too; 3: parameters, too."},
      {.name = "replicas",
       .fallback = int64_t{2},
       .rule = {.least = 1, .most = 1024},
       .help = "Number of replicas in each process."},
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
