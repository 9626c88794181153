#pragma once

#include <string>

#include "telar/graph/graph.h"

namespace telar {

/// The graph in Graphviz's language: a box for each operation, with its layer and the type of its result, and
/// an ellipse for each input, parameter and buffer. To draw it: `telar show --dot MODEL | dot -Tsvg`.
std::string to_dot(const Graph& graph);

}  // namespace telar
