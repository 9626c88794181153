#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "telar/graph/ops/communication.h"
#include "telar/graph/piece.h"

namespace telar {

/// The graph of a worker that keeps only these pieces of parameters: each parameter is gathered from the
/// pieces of all `members` of the group before its first reader. Parameters that are first read one after the
/// other are gathered together until they have at least `bytes`. A gradient with respect to the pieces
/// therefore is the members' sum, of all parameters of a gather together.
Graph gather_parameters(const Graph& graph, const Pieces& pieces, const std::string& group, int64_t members,
                        size_t bytes);

/// A gradient graph in which no gathered parameter lives from the forward to the backward part: those that
/// backward reads are gathered again before their first reader there. That costs another exchange, and saves
/// the memory of the whole parameters.
Graph gather_again_in_backward(const Graph& gradient);

}  // namespace telar
