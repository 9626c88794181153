#include "telar/strategy/worker_grid.h"

#include <algorithm>
#include <map>
#include <utility>

#include "telar/core/error.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/forward_part.h"
#include "telar/strategy/buckets.h"
#include "telar/strategy/synchronise_batch_norm.h"

namespace telar {

namespace {

constexpr const char* kData = "data";
constexpr const char* kModel = "model";

using Pieces = std::map<std::string, Piece>;

void check_workers(const std::string& strategy, const Cluster& cluster, const WorkerGrid& grid) {
  const auto local = static_cast<int64_t>(cluster.devices.size());
  const int64_t workers = grid.data * grid.model;
  if (local * cluster.processes != workers) {
    throw user_error(
        "strategy '{}' has {} × {} = {} workers, but there are {} processes with {} workers each; start a number of processes that divides {}",
        strategy, grid.data, grid.model, workers, cluster.processes, local, workers);
  }
  if (local % grid.model != 0 && grid.model % local != 0) {
    throw user_error(
        "strategy '{}': a process has {} workers, which are neither a part nor a multiple of a group of {} that share layers; use a number of processes so that they are",
        strategy, local, grid.model);
  }
}

std::vector<WorkerGroups> groups_of(const WorkerGrid& grid) {
  WorkerGroups data{kData, std::vector<std::vector<int>>(static_cast<size_t>(grid.model))};
  WorkerGroups model{kModel, std::vector<std::vector<int>>(static_cast<size_t>(grid.data))};
  for (int64_t w = 0; w < grid.data * grid.model; ++w) {
    data.members[static_cast<size_t>(w % grid.model)].push_back(static_cast<int>(w));
    model.members[static_cast<size_t>(w / grid.model)].push_back(static_cast<int>(w));
  }
  return {std::move(data), std::move(model)};
}

/// The gradient graph of a divided forward graph: differentiated again, because exchanges have gradients.
Graph gradient_of(const DividedGraph& divided, const TrainingStep& step) {
  std::vector<ValueId> wanted;
  for (const ParameterInfo& parameter : step.parameters) {
    if (parameter.trainable && step.gradient.has(ValueKind::buffer, "gradient/" + parameter.name))
      wanted.push_back(divided.graph.find(ValueKind::parameter, parameter.name));
  }
  return differentiate(divided.graph, loss_of(divided.graph), wanted);
}

/// The update graph over pieces: the same operations on parameters and buffers of the pieces' shapes.
Graph update_of_pieces(const Graph& update, const Pieces& pieces) {
  GraphBuilder builder;
  std::vector<ValueId> now(update.values().size(), kNoValue);
  for (size_t i = 0; i < update.values().size(); ++i) {
    const Value& value = update.values()[i];
    TensorType type = value.type;
    const auto piece = pieces.find(value.name.substr(value.name.find('/') + 1));
    if (piece != pieces.end()) type.shape = piece->second.piece_shape();
    if (value.kind == ValueKind::input) now[i] = builder.input(value.name, type, value.batched);
    if (value.kind == ValueKind::parameter) now[i] = builder.parameter(value.name, type);
    if (value.kind == ValueKind::buffer) now[i] = builder.buffer(value.name, type);
  }
  for (const Node& node : update.nodes()) {
    std::vector<ValueId> inputs;
    for (const ValueId id : node.inputs) inputs.push_back(id == kNoValue ? id : now[static_cast<size_t>(id)]);
    builder.set_scope(node.scope);
    const auto outputs = builder.add(*node.op, std::move(inputs), node.attributes);
    for (size_t i = 0; i < outputs.size(); ++i) now[static_cast<size_t>(node.outputs[i])] = outputs[i];
  }
  builder.set_scope("");
  return builder.build();
}

/// What a worker keeps, in its order in the arenas: first what all workers have whole, so that it has the
/// same place everywhere; in both parts bucket after bucket, then what has no bucket.
std::vector<Holding> holdings_of(const Program& program, const Pieces& pieces) {
  std::vector<std::string> order;
  for (const Bucket& bucket : program.buckets)
    order.insert(order.end(), bucket.parameters.begin(), bucket.parameters.end());
  std::map<std::string, const ParameterInfo*> infos;
  for (const ParameterInfo& parameter : program.parameters) {
    infos[parameter.name] = &parameter;
    if (std::ranges::find(order, parameter.name) == order.end()) order.push_back(parameter.name);
  }
  std::vector<Holding> holdings;
  for (const std::string& name : order)
    if (!pieces.contains(name)) holdings.push_back({Piece::all_of(*infos.at(name)), kAllWorkers});
  for (const std::string& name : order)
    if (pieces.contains(name)) holdings.push_back({pieces.at(name), kData});
  return holdings;
}

/// The samples over which a batch normalisation takes its statistics. One whose features are divided has the
/// samples of its group "model" already.
std::optional<StatisticsGroup> statistics_group(const Pieces& pieces, const WorkerGrid& grid,
                                                const std::string& gamma) {
  const StatisticsGroup group = pieces.contains(gamma) ? StatisticsGroup{kData, grid.data}
                                                       : StatisticsGroup{kAllWorkers, grid.data * grid.model};
  return group.members > 1 ? std::optional(group) : std::nullopt;
}

}  // namespace

std::vector<Option> division_options() {
  return {
      {.name = "split",
       .fallback = std::vector<std::string>{},
       .help =
           "Layers that are divided, or not, whatever it costs: `[\"classifier.*=columns\", \"conv1=whole\"]`. columns: each worker computes some of the output features; rows: each worker multiplies some of the input features. Layers that are not named are divided if that saves communication."},
      batch_norm_option(),
      bucket_option()};
}

void check_division(const Attributes& options) { split_rules(options.texts("split")); }

Program grid_program(const std::string& strategy, const TrainingStep& step, const Cluster& cluster,
                     const WorkerGrid& grid, const Attributes& options) {
  check_workers(strategy, cluster, grid);
  const Graph forward = forward_of(step);
  const LayerSplits splits = choose_splits(forward, step.gradient.batch() / grid.data, grid.model,
                                           split_rules(options.texts("split")));
  const auto local = static_cast<int>(cluster.devices.size());

  Program program = program_of(step, strategy);
  program.groups = groups_of(grid);
  program.batch_group = kModel;
  program.first_worker = cluster.process * local;
  for (int w = 0; w < local; ++w) {
    const SampleGroup group{kModel, (program.first_worker + w) % grid.model, grid.model};
    const DividedGraph divided = divide_layers(forward, splits, group);
    const Pieces& pieces = divided.pieces;
    Graph gradient = gradient_of(divided, step);
    if (synchronises_batch_norm(options)) {
      gradient = synchronise_batch_norm(
          gradient, [&](const std::string& gamma) { return statistics_group(pieces, grid, gamma); });
    }
    program.buckets =
        make_buckets(program.parameters, gradient, bucket_bytes(options), [&](const std::string& name) {
          if (!pieces.contains(name)) return std::string(kAllWorkers);
          return grid.data > 1 ? std::string(kData) : std::string();
        });
    program.workers.push_back(
        {w,
         insert_bucket_reductions(gradient, program.buckets),
         {action::compute_gradient(), action::finish_exchange(), action::exchange_metrics(),
          action::exchange_norm(), action::update_shard(), action::wait_for_all()},
         Graph(),
         holdings_of(program, pieces),
         update_of_pieces(step.update, pieces),
         divide_layers(step.evaluation, splits, group).graph,
         divide_layers(step.prediction, splits, group).graph});
  }
  return program;
}

}  // namespace telar
