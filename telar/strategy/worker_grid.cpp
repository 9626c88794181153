#include "telar/strategy/worker_grid.h"

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
std::optional<StatisticsGroup> statistics_group(const Divisions& divisions, const WorkerGrid& grid,
                                                const std::string& gamma) {
  const StatisticsGroup group = divisions.contains(gamma)
                                    ? StatisticsGroup{kDataGroup, grid.data}
                                    : StatisticsGroup{kAllWorkers, grid.data * grid.model};
  return group.members > 1 ? std::optional(group) : std::nullopt;
}

}  // namespace

GridPlace place_of(const WorkerGrid& grid, int64_t worker) {
  return {worker / (grid.stages * grid.model), worker / grid.model % grid.stages, worker % grid.model};
}

Mesh mesh_of(const WorkerGrid& grid, int processes) {
  return {{{kDataAxis, grid.data}, {kStageAxis, grid.stages}, {kModelAxis, grid.model}}, processes};
}

std::vector<WorkerGroup> grid_groups() { return {{kDataGroup, {kDataAxis}}, {kModelGroup, {kModelAxis}}}; }

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
  Program program = program_of(step, strategy);
  program.mesh = mesh_of(grid, cluster.processes);
  program.groups = grid_groups();
  program.batch_group = kModelGroup;
  for (int64_t m = 0; m < grid.model; ++m) {
    const DividedStep divided = divide_step(step, splits, {kModelGroup, m, grid.model});
    const Divisions& divisions = divided.divisions;
    Graph gradient = divided.step.gradient;
    if (synchronises_batch_norm(options)) {
      program.least.part = 1;
      gradient = synchronise_batch_norm(
          gradient, [&](const std::string& gamma) { return statistics_group(divisions, grid, gamma); });
    }
    program.buckets =
        make_buckets(program.parameters, gradient, bucket_bytes(options), [&](const std::string& name) {
          if (!divisions.contains(name)) return std::string(kAllWorkers);
          return grid.data > 1 ? std::string(kDataGroup) : std::string();
        });
    program.kinds.push_back({.gradient = insert_bucket_reductions(gradient, program.buckets),
                             .schedule = data_parallel_schedule(),
                             .update = divided.step.update,
                             .evaluation = divided.step.evaluation,
                             .prediction = divided.step.prediction,
                             .holdings = holdings_of(program, divisions, kModelGroup, kDataGroup)});
  }
  for (int64_t w = 0; w < grid.workers(); ++w)
    program.kind_of_worker.push_back(static_cast<size_t>(program.mesh.coordinate(w, kModelAxis)));
  return program;
}

}  // namespace telar
