#pragma once

#include <map>
#include <string>
#include <vector>

#include "telar/graph/program.h"

namespace telar {

/// What workers keep, and the graphs of those that keep pieces of parameters.

/// The gradient graph of a rewritten forward graph of the step: differentiated again, because the exchanges
/// in it have gradients.
Graph gradient_of(const Graph& forward, const TrainingStep& step);

/// The update graph over pieces: the same operations on parameters and buffers of the pieces' shapes.
Graph update_of_pieces(const Graph& update, const Pieces& pieces);

/// How variables are divided among the members of a group: by name, the axis and the number of items of whose
/// multiples the parts are.
struct Division {
  size_t axis = 0;
  int64_t unit = 1;

  bool operator==(const Division&) const = default;
};
using Divisions = std::map<std::string, Division>;

/// What a worker keeps, in its order in the arenas: first what all workers have whole, so that it has the
/// same place everywhere; in both parts bucket after bucket, then what has no bucket. `divided`: the group
/// among whose members variables are divided; `copies`: the one whose members keep the same parts.
std::vector<Holding> holdings_of(const Program& program, const Divisions& divisions = {},
                                 const std::string& divided = {}, const std::string& copies = kAllWorkers);

/// Lets the workers of a process keep all parameters, whole, in one memory, and gives them the graphs of the
/// whole step. Call it when the program has its kinds.
void share_memory(Program& program, Update update = Update::of_process);

}  // namespace telar
