#include "telar/strategy/worker_grid.h"

#include <utility>

#include "telar/core/error.h"
#include "telar/graph/forward_part.h"
#include "telar/strategy/buckets.h"
#include "telar/strategy/data_parallel.h"
#include "telar/strategy/pieces.h"
#include "telar/strategy/synchronise_batch_norm.h"

namespace telar {

namespace {

constexpr const char* kData = "data";
constexpr const char* kModel = "model";

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
           "Layers that are divided, or not, whatever it costs: `[\"classifier.*=columns\", \"conv1=whole\"]`. columns: each worker computes some of the output features; rows: each worker multiplies some of the input features, or, of an embedding, looks up some of the tokens. Layers that are not named are divided if that saves communication."},
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
    Graph gradient = gradient_of(divided.graph, step);
    if (synchronises_batch_norm(options)) {
      gradient = synchronise_batch_norm(
          gradient, [&](const std::string& gamma) { return statistics_group(pieces, grid, gamma); });
    }
    program.buckets =
        make_buckets(program.parameters, gradient, bucket_bytes(options), [&](const std::string& name) {
          if (!pieces.contains(name)) return std::string(kAllWorkers);
          return grid.data > 1 ? std::string(kData) : std::string();
        });
    program.workers.push_back({w, insert_bucket_reductions(gradient, program.buckets),
                               data_parallel_schedule(), Graph(), holdings_of(program, pieces, kData),
                               update_of_pieces(step.update, pieces),
                               divide_layers(step.evaluation, splits, group).graph,
                               divide_layers(step.prediction, splits, group).graph});
  }
  return program;
}

}  // namespace telar
