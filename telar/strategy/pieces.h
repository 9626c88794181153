#pragma once

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

/// What a worker keeps, in its order in the arenas: first what all workers have whole, so that it has the
/// same place everywhere; in both parts bucket after bucket, then what has no bucket. `copies`: the group
/// whose members keep the same pieces.
std::vector<Holding> holdings_of(const Program& program, const Pieces& pieces, const std::string& copies);

/// Lets the workers of a process keep all parameters, whole, in one memory (Program::shares_memory). Call it
/// when the program has its workers.
void share_memory(Program& program);

}  // namespace telar
