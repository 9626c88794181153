#pragma once

#include <string>

#include "telar/graph/graph.h"

namespace telar {

/// The graph in Graphviz's language: a box for each operation with its layer and the type of its result, an ellipse for
/// each input, parameter and buffer. `telar show --dot MODEL | dot -Tsvg` draws it.
std::string to_dot(const Graph& graph);

}  // namespace telar
