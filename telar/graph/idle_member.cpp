#include "telar/graph/idle_member.h"

#include <algorithm>
#include <vector>

#include "telar/graph/ops/accumulate.h"
#include "telar/graph/ops/constant.h"
#include "telar/graph/ops/stage.h"
#include "telar/graph/rewrite.h"

namespace telar {

namespace {

/// For each value, whether it depends on samples of this member other than through an exchange.
std::vector<bool> of_own_samples(const Graph& graph) {
  std::vector<bool> own(graph.values().size(), false);
  for (size_t i = 0; i < own.size(); ++i)
    own[i] = graph.values()[i].kind == ValueKind::input && graph.values()[i].batched;
  for (const Node& node : graph.nodes()) {
    bool depends = std::any_of(node.inputs.begin(), node.inputs.end(),
                               [&](ValueId id) { return id != kNoValue && own[static_cast<size_t>(id)]; });
    if (node.op->effect() == Effect::exchanges)
      depends = node.op->exchanged_samples() == ExchangedSamples::gives_own;
    for (const ValueId id : node.outputs) own[static_cast<size_t>(id)] = depends;
  }
  return own;
}

}  // namespace

Graph for_idle_member(const Graph& graph) {
  const std::vector<bool> own = of_own_samples(graph);
  const auto is_own = [&](ValueId id) { return id != kNoValue && own[static_cast<size_t>(id)]; };
  return rewrite_nodes(graph, [&](GraphBuilder& builder, const Node& node, Remap& remap) {
    const bool depends = std::any_of(node.inputs.begin(), node.inputs.end(), is_own);
    if (!depends) {
      copy_node(builder, node, remap);
    } else if (node.op->effect() == Effect::exchanges) {
      // What it gives to the others has no samples; statistics of none are zeros.
      for (const ValueId from : node.inputs) {
        const Value& value = graph.value(from);
        const bool is_batch = value.kind == ValueKind::input && !is_delivered(value.name);
        if (!is_own(from) || is_batch) continue;
        remap.set(from, constant(builder, 0, value.type.shape));
      }
      copy_node(builder, node, remap);
    } else if (node.op->effect() == Effect::accumulates) {
      const ValueId zeros = constant(builder, 0, graph.value(node.inputs[1]).type.shape);
      accumulate(builder, remap(node.inputs[0]), zeros);
    } else {
      for (const auto& [name, id] : graph.outputs()) {
        if (std::ranges::find(node.outputs, id) != node.outputs.end())
          remap.set(id, constant(builder, 0, graph.value(id).type.shape));
      }
    }
  });
}

Graph for_samples(const Graph& graph, int64_t batch, const std::vector<int64_t>& rows) {
  return batch > 0 ? graph.with_batch(batch, rows) : for_idle_member(graph.with_batch(1, rows));
}

}  // namespace telar
