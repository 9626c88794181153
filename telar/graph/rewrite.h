#pragma once

#include <functional>

#include "telar/graph/graph.h"

namespace telar {

/// Maps old value ids to new ones; filled as nodes are copied.
class Remap {
 public:
  explicit Remap(size_t count) : new_ids_(count, kNoValue) {}
  ValueId operator()(ValueId old) const {
    return old == kNoValue ? kNoValue : new_ids_[static_cast<size_t>(old)];
  }
  void set(ValueId old, ValueId now) { new_ids_[static_cast<size_t>(old)] = now; }

 private:
  std::vector<ValueId> new_ids_;
};

/// Called for each node of the old graph. Adds the node's replacement to the builder and records its outputs
/// in the remap.
using NodeRewrite = std::function<void(GraphBuilder&, const Node&, Remap&)>;

/// A graph with the same inputs, parameters, buffers and outputs, in which `rewrite` replaces each node. The
/// basis of every pass that inserts or replaces operations.
Graph rewrite_nodes(const Graph& graph, const NodeRewrite& rewrite);

/// Copies a node unchanged, or with other attributes when given.
void copy_node(GraphBuilder& builder, const Node& node, Remap& remap);
void copy_node(GraphBuilder& builder, const Node& node, Remap& remap, const Attributes& attributes);

}  // namespace telar
