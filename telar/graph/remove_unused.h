#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// The graph without operations on which neither an output nor an effect depends. Operations with random
/// numbers stay, because the streams of others count them. Values that are no results stay, too.
Graph remove_unused(const Graph& graph);

}  // namespace telar
