#pragma once

#include <functional>
#include <string>
#include <vector>

#include "telar/core/option.h"
#include "telar/strategy/split_choice.h"
#include "telar/strategy/strategy.h"

namespace telar {

/// What the strategies that divide layers among workers have in common.

inline constexpr const char* kDataGroup = "data";
inline constexpr const char* kModelGroup = "model";

/// The workers of all processes in a grid. The `model` workers of one d and s divide layers among them; those
/// of one d and m are the stages of a pipeline; those of one s and m do the same for other samples. Each pair
/// of d and m has its own share of every batch.
struct WorkerGrid {
  int64_t data = 1;
  int64_t model = 1;
  int64_t stages = 1;

  int64_t workers() const { return data * model * stages; }
};

/// The place of a worker in the grid. Worker (d·stages + s)·model + m is at (d, s, m): those that exchange
/// most are next to each other.
struct GridPlace {
  int64_t d = 0;
  int64_t s = 0;
  int64_t m = 0;
};
GridPlace place_of(const WorkerGrid& grid, int64_t worker);

/// The grid as a mesh, and its groups kDataGroup and kModelGroup: workers that have the same pieces of the
/// same layers, and those that have different pieces of them.
Mesh mesh_of(const WorkerGrid& grid, int processes);
std::vector<WorkerGroup> grid_groups();

/// Throws Error (user) when the cluster does not have the grid's number of workers, or when its processes cut
/// through its groups unequally.
void check_workers(const std::string& strategy, const Cluster& cluster, const WorkerGrid& grid);

/// The options `split`, `batch_norm` and `bucket_mb`.
std::vector<Option> division_options();
/// Throws OptionError for a rule of `split` that cannot be read.
void check_division(const Attributes& options);

/// The program of a grid of workers, with one stage, each with its samples of every batch. Layers chosen by
/// choose_splits() are divided over each group "model", whose members compute them for the samples of all;
/// everything else is data parallel over all workers. Throws what check_workers() and choose_splits() throw.
Program grid_program(const std::string& strategy, const TrainingStep& step, const Cluster& cluster,
                     const WorkerGrid& grid, const Attributes& options);

}  // namespace telar
