#pragma once

#include <vector>

#include "telar/graph/program.h"
#include "telar/observe/graph_nodes.h"
#include "telar/train/job.h"

namespace telar {

/// The operations of all workers of a program with their devices, and the servers of its variables, for
/// TensorBoard.
std::vector<GraphNode> run_graph(const Program& program, const StrategyJob& strategy);

}  // namespace telar
