#include "telar/graph/forward_part.h"

#include <algorithm>

#include "telar/core/error.h"
#include "telar/graph/rewrite.h"

namespace telar {

Graph forward_of(const TrainingStep& step) {
  if (step.forward_nodes == 0) throw run_error("the step does not say which part of its graph is forward");
  GraphBuilder builder;
  Remap remap(step.gradient.values().size());
  const auto bring = [&](ValueId id) {
    if (id == kNoValue || remap(id) != kNoValue) return;
    const Value& value = step.gradient.value(id);
    if (value.kind != ValueKind::result) remap.set(id, builder.declare(value));
  };
  for (size_t n = 0; n < step.forward_nodes; ++n) {
    const Node& node = step.gradient.nodes()[n];
    for (const ValueId id : node.inputs) bring(id);
    builder.set_scope(node.scope);
    copy_node(builder, node, remap);
  }
  builder.set_scope("");
  return builder.build();
}

ValueId loss_of(const Graph& forward) {
  const ValueId buffer = forward.find(ValueKind::metric, kLoss);
  const auto adds = std::find_if(forward.nodes().begin(), forward.nodes().end(), [&](const Node& node) {
    return node.op->effect() == Effect::accumulates && node.inputs[0] == buffer;
  });
  if (adds == forward.nodes().end()) throw run_error("the graph has no loss");
  return adds->inputs[1];
}

}  // namespace telar
