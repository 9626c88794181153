#include "telar/graph/backward_part.h"

#include <algorithm>

namespace telar {

namespace {

bool adds_to(const Graph& graph, const Node& node, ValueKind kind) {
  return node.op->has_effect() && !node.inputs.empty() && node.inputs[0] != kNoValue &&
         graph.value(node.inputs[0]).kind == kind;
}

}  // namespace

size_t backward_begin(const Graph& graph) {
  const auto& nodes = graph.nodes();
  for (size_t n = 0; n < nodes.size(); ++n)
    if (nodes[n].op->effect() == Effect::pauses) return n + 1;
  const bool has_gradients = std::any_of(nodes.begin(), nodes.end(), [&](const Node& node) {
    return adds_to(graph, node, ValueKind::gradient);
  });
  if (!has_gradients) return nodes.size();
  size_t begin = 0;
  for (size_t n = 0; n < nodes.size(); ++n)
    if (adds_to(graph, nodes[n], ValueKind::metric)) begin = n + 1;
  return begin;
}

}  // namespace telar
