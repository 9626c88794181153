#include "telar/graph/autodiff.h"

#include "telar/core/error.h"
#include "telar/graph/buffer_text.h"
#include "telar/graph/ops/accumulate.h"
#include "telar/graph/ops/arithmetic.h"
#include "telar/graph/ops/constant.h"

namespace telar {

void Op::gradient(GradientContext& /*context*/) const {
  throw user_error(
      "operation '{}' has no gradient; it cannot be used between a trained parameter and the loss", name());
}

namespace {

/// Whether gradients end at the operation: its effect is all that it is for.
bool ends_gradients(const Op& op) {
  return op.has_effect() && !op.exchanges_samples() && !op.exchanges_parameters();
}

/// Values that depend on a wanted value: only these carry gradients.
std::vector<bool> reached_from(const Graph& graph, const std::vector<ValueId>& wanted) {
  std::vector<bool> reached(graph.values().size(), false);
  for (const ValueId id : wanted) reached[static_cast<size_t>(id)] = true;
  for (const Node& node : graph.nodes()) {
    bool any = false;
    for (const ValueId id : node.inputs) any = any || (id != kNoValue && reached[static_cast<size_t>(id)]);
    if (!any || ends_gradients(*node.op)) continue;
    for (const ValueId id : node.outputs) reached[static_cast<size_t>(id)] = true;
  }
  return reached;
}

/// For each value, the first node that reads it. Once backward has passed that node, the value's gradient is
/// complete.
std::vector<int> first_use(const Graph& graph) {
  std::vector<int> first(graph.values().size(), -1);
  for (int n = static_cast<int>(graph.nodes().size()) - 1; n >= 0; --n) {
    for (const ValueId id : graph.nodes()[static_cast<size_t>(n)].inputs) {
      if (id != kNoValue) first[static_cast<size_t>(id)] = n;
    }
  }
  return first;
}

}  // namespace

Graph differentiate(const Graph& forward, ValueId loss, const std::vector<ValueId>& wanted) {
  const std::vector<bool> reached = reached_from(forward, wanted);
  const std::vector<int> first = first_use(forward);
  if (!reached[static_cast<size_t>(loss)]) throw user_error("the loss depends on no trained parameter");

  GraphBuilder builder(forward);
  std::vector<ValueId> gradients(forward.values().size(), kNoValue);
  builder.set_scope("loss");
  gradients[static_cast<size_t>(loss)] = constant(builder, 1.0, {1});

  std::map<int, std::vector<ValueId>> complete_at;
  for (const ValueId id : wanted) complete_at[first[static_cast<size_t>(id)]].push_back(id);

  for (int n = static_cast<int>(forward.nodes().size()) - 1; n >= 0; --n) {
    const Node& node = forward.nodes()[static_cast<size_t>(n)];
    std::vector<ValueId> output_gradients;
    bool any = false;
    for (const ValueId id : node.outputs) {
      output_gradients.push_back(gradients[static_cast<size_t>(id)]);
      any = any || output_gradients.back() != kNoValue;
    }
    std::vector<bool> needs;
    bool wanted_here = false;
    for (const ValueId id : node.inputs) {
      needs.push_back(id != kNoValue && reached[static_cast<size_t>(id)]);
      wanted_here = wanted_here || needs.back();
    }
    if (any && wanted_here && !ends_gradients(*node.op)) {
      builder.set_scope(node.scope);
      GradientContext context(builder, node, output_gradients, needs);
      node.op->gradient(context);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const ValueId contribution = context.result(i);
        if (contribution == kNoValue || !needs[i]) continue;
        ValueId& sum = gradients[static_cast<size_t>(node.inputs[i])];
        sum = sum == kNoValue ? contribution : add(builder, sum, contribution);
      }
    }
    const auto complete = complete_at.find(n);
    if (complete == complete_at.end()) continue;
    for (const ValueId id : complete->second) {
      const Value& value = forward.value(id);
      const ValueId gradient = gradients[static_cast<size_t>(id)];
      if (gradient == kNoValue) throw user_error("'{}' does not influence the loss", value.name);
      builder.set_scope(node.scope);
      if (value.kind == ValueKind::parameter) {
        accumulate(builder, builder.gradient(value.name, value.type), gradient);
      } else {
        builder.output(buffer_text(ValueKind::gradient, value.name), gradient);
      }
    }
  }
  for (const ValueId id : wanted) {
    if (first[static_cast<size_t>(id)] < 0) {
      throw user_error("parameter '{}' is used by no layer", forward.value(id).name);
    }
  }
  builder.set_scope("");
  return builder.build();
}

}  // namespace telar
