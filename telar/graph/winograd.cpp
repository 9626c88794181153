#include "telar/graph/winograd.h"

#include "telar/graph/rewrite.h"

namespace telar {

Graph allow_winograd(const Graph& forward) {
  return rewrite_nodes(forward, [](GraphBuilder& builder, const Node& node, Remap& remap) {
    if (node.op->has_winograd()) {
      copy_node(builder, node, remap, node.attributes.with("winograd", true));
    } else {
      copy_node(builder, node, remap);
    }
  });
}

}  // namespace telar
