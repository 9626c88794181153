#include "telar/graph/fuse_activations.h"

#include <map>
#include <set>

#include "telar/graph/rewrite.h"

namespace telar {

namespace {

struct Plan {
  std::set<int> with_relu;                   // nodes that get the attribute
  std::map<int, ValueId> replaced_by_input;  // nodes to remove, with the value that replaces their output
};

/// The ReLU's gradient, and the gradient into which it can be moved; −1 when there is none. No other node may
/// read the output of the ReLU's gradient.
struct Backward {
  int relu_backward = -1;
  int taken_by = -1;
};

Backward find_backward(const Graph& graph, const std::vector<std::vector<int>>& uses, const Node& normalised,
                       const Node& relu) {
  Backward found;
  for (const int reader : uses[static_cast<size_t>(relu.outputs[0])]) {
    const Node& node = graph.nodes()[static_cast<size_t>(reader)];
    if (node.op->relu_fusion() != ReluFusion::relu_backward || node.inputs[1] != relu.outputs[0]) continue;
    if (found.relu_backward >= 0) return {};
    found.relu_backward = reader;
  }
  if (found.relu_backward < 0) return {};
  const auto& readers =
      uses[static_cast<size_t>(graph.nodes()[static_cast<size_t>(found.relu_backward)].outputs[0])];
  if (readers.size() != 1) return {};
  const Node& reader = graph.nodes()[static_cast<size_t>(readers[0])];
  if (reader.op->relu_fusion() != ReluFusion::takes_relu_backwards ||
      reader.inputs[3] != normalised.outputs.back())
    return {};
  found.taken_by = readers[0];
  return found;
}

Plan make_plan(const Graph& graph) {
  Plan plan;
  const auto uses = graph.uses();
  std::set<ValueId> outputs;
  for (const auto& output : graph.outputs()) outputs.insert(output.second);
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& relu = graph.nodes()[n];
    if (relu.op->relu_fusion() != ReluFusion::relu) continue;
    const ValueId x = relu.inputs[0];
    const int producer = graph.value(x).node;
    if (producer < 0 || uses[static_cast<size_t>(x)].size() != 1 || outputs.contains(x)) continue;
    const Node& made = graph.nodes()[static_cast<size_t>(producer)];
    if (made.outputs[0] != x) continue;
    if (made.op->relu_fusion() == ReluFusion::takes_relu_forwards) {
      const Backward backward = find_backward(graph, uses, made, relu);
      if (backward.taken_by < 0) continue;
      plan.with_relu.insert(backward.taken_by);
      const Node& relu_backward = graph.nodes()[static_cast<size_t>(backward.relu_backward)];
      plan.replaced_by_input[backward.relu_backward] = relu_backward.inputs[0];
    } else if (made.op->relu_fusion() != ReluFusion::takes_relu) {
      continue;
    }
    plan.with_relu.insert(producer);
    plan.replaced_by_input[static_cast<int>(n)] = x;
  }
  return plan;
}

}  // namespace

Graph fuse_activations(const Graph& graph) {
  const Plan plan = make_plan(graph);
  int index = 0;
  return rewrite_nodes(graph, [&](GraphBuilder& builder, const Node& node, Remap& remap) {
    const int n = index++;
    const auto replaced = plan.replaced_by_input.find(n);
    if (replaced != plan.replaced_by_input.end()) {
      remap.set(node.outputs[0], remap(replaced->second));
    } else if (plan.with_relu.contains(n)) {
      copy_node(builder, node, remap, node.attributes.with("activation", std::string("relu")));
    } else {
      copy_node(builder, node, remap);
    }
  });
}

}  // namespace telar
