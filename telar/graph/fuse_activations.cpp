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

bool takes_relu(std::string_view op) {
  return op == "linear" || op == "conv2d" || op == "add" || op == "batch_norm_inference";
}

/// The batch_norm_backward into which the ReLU's backward can be moved, or −1. No other node may read the
/// output of the ReLU's backward.
struct Backward {
  int relu_backward = -1;
  int batch_norm_backward = -1;
};

Backward find_backward(const Graph& graph, const std::vector<std::vector<int>>& uses, const Node& batch_norm,
                       const Node& relu) {
  Backward found;
  for (const int reader : uses[static_cast<size_t>(relu.outputs[0])]) {
    const Node& node = graph.nodes()[static_cast<size_t>(reader)];
    if (node.op->name() != "relu_backward" || node.inputs[1] != relu.outputs[0]) continue;
    if (found.relu_backward >= 0) return {};
    found.relu_backward = reader;
  }
  if (found.relu_backward < 0) return {};
  const auto& readers =
      uses[static_cast<size_t>(graph.nodes()[static_cast<size_t>(found.relu_backward)].outputs[0])];
  if (readers.size() != 1) return {};
  const Node& reader = graph.nodes()[static_cast<size_t>(readers[0])];
  if (reader.op->name() != "batch_norm_backward" || reader.inputs[3] != batch_norm.outputs[3]) return {};
  found.batch_norm_backward = readers[0];
  return found;
}

Plan make_plan(const Graph& graph) {
  Plan plan;
  const auto uses = graph.uses();
  std::set<ValueId> outputs;
  for (const auto& output : graph.outputs()) outputs.insert(output.second);
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& relu = graph.nodes()[n];
    if (relu.op->name() != "relu") continue;
    const ValueId x = relu.inputs[0];
    const int producer = graph.value(x).node;
    if (producer < 0 || uses[static_cast<size_t>(x)].size() != 1 || outputs.contains(x)) continue;
    const Node& made = graph.nodes()[static_cast<size_t>(producer)];
    if (made.outputs[0] != x) continue;
    if (made.op->name() == "batch_norm") {
      const Backward backward = find_backward(graph, uses, made, relu);
      if (backward.batch_norm_backward < 0) continue;
      plan.with_relu.insert(backward.batch_norm_backward);
      const Node& relu_backward = graph.nodes()[static_cast<size_t>(backward.relu_backward)];
      plan.replaced_by_input[backward.relu_backward] = relu_backward.inputs[0];
    } else if (!takes_relu(made.op->name())) {
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
