#include "telar/graph/rewrite.h"

namespace telar {

Graph rewrite_nodes(const Graph& graph, const NodeRewrite& rewrite) {
  GraphBuilder builder;
  Remap remap(graph.values().size());
  for (size_t i = 0; i < graph.values().size(); ++i) {
    const Value& value = graph.values()[i];
    const auto id = static_cast<ValueId>(i);
    if (value.kind != ValueKind::result) remap.set(id, builder.declare(value));
  }
  for (const Node& node : graph.nodes()) {
    builder.set_scope(node.scope);
    rewrite(builder, node, remap);
  }
  builder.set_scope("");
  for (const auto& [name, value] : graph.outputs()) builder.output(name, remap(value));
  return builder.build();
}

void copy_node(GraphBuilder& builder, const Node& node, Remap& remap) {
  copy_node(builder, node, remap, node.attributes);
}

void copy_node(GraphBuilder& builder, const Node& node, Remap& remap, const Attributes& attributes) {
  std::vector<ValueId> inputs;
  for (const ValueId id : node.inputs) inputs.push_back(remap(id));
  const auto outputs = builder.add(*node.op, std::move(inputs), attributes);
  for (size_t i = 0; i < outputs.size(); ++i) remap.set(node.outputs[i], outputs[i]);
}

}  // namespace telar
