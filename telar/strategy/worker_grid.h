#pragma once

#include <string>
#include <vector>

#include "telar/core/option.h"
#include "telar/strategy/split_choice.h"
#include "telar/strategy/strategy.h"

namespace telar {

/// What the strategies that divide layers among workers have in common.

/// The workers of all processes in a grid: worker d·model + m has part m of the layers that are divided, and
/// trains on samples of group d. The workers of one d are the group "model", those of one m the group "data".
struct WorkerGrid {
  int64_t data = 1;
  int64_t model = 1;
};

/// The options `split`, `batch_norm` and `bucket_mb`.
std::vector<Option> division_options();
/// Throws OptionError for a rule of `split` that cannot be read.
void check_division(const Attributes& options);

/// The program of a grid of workers, each with its samples of every batch. Layers chosen by choose_splits()
/// are divided over each group "model", whose members compute them for the samples of all; everything else is
/// data parallel over all workers. Throws Error (user) when the cluster does not have the grid's number of
/// workers, or when its processes cut through its groups.
Program grid_program(const std::string& strategy, const TrainingStep& step, const Cluster& cluster,
                     const WorkerGrid& grid, const Attributes& options);

}  // namespace telar
