#include "telar/graph/remove_unused.h"

#include <algorithm>
#include <vector>

#include "telar/graph/rewrite.h"

namespace telar {

namespace {

/// For each node, whether it is used.
std::vector<bool> used_nodes(const Graph& graph) {
  std::vector<bool> wanted(graph.values().size());
  for (const auto& [name, value] : graph.outputs()) wanted[static_cast<size_t>(value)] = true;
  std::vector<bool> used(graph.nodes().size());
  for (size_t i = used.size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    used[i] = node.op->has_effect() || node.attributes.has("stream") ||
              std::any_of(node.outputs.begin(), node.outputs.end(),
                          [&](ValueId id) { return wanted[static_cast<size_t>(id)]; });
    if (!used[i]) continue;
    for (const ValueId id : node.inputs)
      if (id != kNoValue) wanted[static_cast<size_t>(id)] = true;
  }
  return used;
}

}  // namespace

Graph remove_unused(const Graph& graph) {
  const std::vector<bool> used = used_nodes(graph);
  size_t next = 0;
  return rewrite_nodes(graph, [&](GraphBuilder& builder, const Node& node, Remap& remap) {
    if (used[next++]) copy_node(builder, node, remap);
  });
}

}  // namespace telar
