#include "telar/strategy/worker_grid.h"

#include <map>
#include <utility>

#include "telar/core/error.h"
#include "telar/graph/forward_part.h"
#include "telar/strategy/buckets.h"
#include "telar/strategy/data_parallel.h"
#include "telar/strategy/divided_step.h"
#include "telar/strategy/pieces.h"
#include "telar/strategy/synchronise_batch_norm.h"

namespace telar {

namespace {

/// The samples over which a batch normalisation takes its statistics. One whose features are divided has the
/// samples of its group "model" already.
std::optional<StatisticsGroup> statistics_group(const Pieces& pieces, const WorkerGrid& grid,
                                                const std::string& gamma) {
  const StatisticsGroup group = pieces.contains(gamma) ? StatisticsGroup{kDataGroup, grid.data}
                                                       : StatisticsGroup{kAllWorkers, grid.data * grid.model};
  return group.members > 1 ? std::optional(group) : std::nullopt;
}

}  // namespace

GridPlace place_of(const WorkerGrid& grid, int64_t worker) {
  return {worker / (grid.stages * grid.model), worker / grid.model % grid.stages, worker % grid.model};
}

int64_t worker_at(const WorkerGrid& grid, const GridPlace& place) {
  return (place.d * grid.stages + place.s) * grid.model + place.m;
}

WorkerGroups grouped(const std::string& name, const WorkerGrid& grid,
                     const std::function<int64_t(const GridPlace&)>& key) {
  std::map<int64_t, std::vector<int>> by_key;
  for (int64_t w = 0; w < grid.workers(); ++w) by_key[key(place_of(grid, w))].push_back(static_cast<int>(w));
  WorkerGroups groups{name, {}};
  for (auto& [of_group, members] : by_key) groups.members.push_back(std::move(members));
  return groups;
}

WorkerGroups data_groups(const WorkerGrid& grid) {
  return grouped(kDataGroup, grid, [&](const GridPlace& at) { return at.s * grid.model + at.m; });
}

WorkerGroups model_groups(const WorkerGrid& grid) {
  return grouped(kModelGroup, grid, [&](const GridPlace& at) { return at.d * grid.stages + at.s; });
}

void check_workers(const std::string& strategy, const Cluster& cluster, const WorkerGrid& grid) {
  const auto local = static_cast<int64_t>(cluster.devices.size());
  const auto divides = [&](int64_t group) { return local % group == 0 || group % local == 0; };
  if (local * cluster.processes != grid.workers()) {
    throw user_error(
        "strategy '{}' has {} workers in all processes together, but there are {} processes with {} workers each; start a number of processes that divides {}",
        strategy, grid.workers(), cluster.processes, local, grid.workers());
  }
  if (!divides(grid.model)) {
    throw user_error(
        "strategy '{}': a process has {} workers, which are neither a part nor a multiple of a group of {} that share layers; use a number of processes so that they are",
        strategy, local, grid.model);
  }
  if (!divides(grid.model * grid.stages)) {
    throw user_error(
        "strategy '{}': a process has {} workers, which are neither a part nor a multiple of the {} of a pipeline; use a number of processes so that they are",
        strategy, local, grid.model * grid.stages);
  }
}

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
  const LayerSplits splits = choose_splits(forward_of(step), step.gradient.batch() / grid.data, grid.model,
                                           split_rules(options.texts("split")));
  const auto local = static_cast<int>(cluster.devices.size());

  Program program = program_of(step, strategy);
  program.groups = {data_groups(grid), model_groups(grid)};
  program.batch_group = kModelGroup;
  program.first_worker = cluster.process * local;
  for (int w = 0; w < local; ++w) {
    const GridPlace place = place_of(grid, program.first_worker + w);
    const DividedStep divided = divide_step(step, splits, {kModelGroup, place.m, grid.model});
    const Pieces& pieces = divided.pieces;
    Graph gradient = divided.step.gradient;
    if (synchronises_batch_norm(options)) {
      program.least.part = 1;
      gradient = synchronise_batch_norm(
          gradient, [&](const std::string& gamma) { return statistics_group(pieces, grid, gamma); });
    }
    program.buckets =
        make_buckets(program.parameters, gradient, bucket_bytes(options), [&](const std::string& name) {
          if (!pieces.contains(name)) return std::string(kAllWorkers);
          return grid.data > 1 ? std::string(kDataGroup) : std::string();
        });
    program.workers.push_back({w, insert_bucket_reductions(gradient, program.buckets),
                               data_parallel_schedule(), Graph(), holdings_of(program, pieces, kDataGroup),
                               divided.step.update, divided.step.evaluation, divided.step.prediction});
  }
  return program;
}

}  // namespace telar
