#include "telar/strategy/stage_graphs.h"

#include <fmt/format.h>

#include <algorithm>

#include "telar/core/error.h"
#include "telar/graph/ops/stage.h"
#include "telar/graph/rewrite.h"
#include "telar/graph/training_step.h"

namespace telar {

namespace {

bool adds_a_gradient(const Graph& graph, const Node& node) {
  return node.op->effect() == Effect::accumulates && node.inputs.size() == 2 &&
         graph.value(node.inputs[0]).kind == ValueKind::gradient;
}

std::string name_of_value(ValueId id) { return fmt::format("%{}", id); }

/// Copies nodes of one graph into the graph of a stage. Values that another graph computes become inputs.
class StageBuilder {
 public:
  /// `free`: nodes that belong to no stage and are copied where they are read.
  StageBuilder(const Graph& graph, const std::vector<bool>& free)
      : graph_(graph), free_(free), remap_(graph.values().size()) {}

  void add(size_t n, const std::vector<bool>& delivered) {
    const Node& node = graph_.nodes()[n];
    for (const ValueId id : node.inputs) bring(id);
    if (adds_a_gradient(graph_, node)) declare_parameter(graph_.value(node.inputs[0]).name);
    builder_.set_scope(node.scope);
    copy_node(builder_, node, remap_);
    for (const ValueId id : node.outputs) {
      if (delivered[static_cast<size_t>(id)]) deliver(builder_, remap_(id), name_of_value(id));
    }
  }

  void halt() {
    builder_.set_scope("");
    pause(builder_);
  }

  void output(const std::string& name, ValueId id) { builder_.output(name, remap_(id)); }

  Graph build() {
    builder_.set_scope("");
    return builder_.build();
  }

 private:
  /// A gradient has the layout of its parameter, so the graph must know the parameter.
  void declare_parameter(const std::string& name) {
    if (graph_.has(ValueKind::parameter, name)) bring(graph_.find(ValueKind::parameter, name));
  }

  void bring(ValueId id) {
    if (id == kNoValue || remap_(id) != kNoValue) return;
    const Value& value = graph_.value(id);
    if (value.kind != ValueKind::result) {
      remap_.set(id, builder_.declare(value));
      return;
    }
    if (free_[static_cast<size_t>(value.node)]) {
      const Node& node = graph_.nodes()[static_cast<size_t>(value.node)];
      for (const ValueId input : node.inputs) bring(input);
      builder_.set_scope(node.scope);
      copy_node(builder_, node, remap_);
      return;
    }
    remap_.set(id, builder_.input(name_of_value(id), value.type, true));
  }

  const Graph& graph_;
  const std::vector<bool>& free_;
  Remap remap_;
  GraphBuilder builder_;
};

}  // namespace

std::vector<bool> left_for_the_end(const TrainingStep& step, const StageCuts& cuts, const Graph& micro) {
  const Graph& graph = step.gradient;
  const auto uses = graph.uses();
  std::vector<bool> left(graph.nodes().size(), false);
  for (size_t n = step.forward_nodes; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    if (node.op->has_effect() || node.inputs.empty()) continue;
    const auto is_operand = [&](ValueId id) {
      return id != kNoValue && cuts.batched(id) && graph.value(id).type.dtype != DType::opaque;
    };
    const auto is_gradient = [&](ValueId id) {
      const auto& readers = uses[static_cast<size_t>(id)];
      return !cuts.batched(id) && !readers.empty() && std::all_of(readers.begin(), readers.end(), [&](int r) {
        return adds_a_gradient(graph, graph.nodes()[static_cast<size_t>(r)]);
      });
    };
    if (!std::all_of(node.inputs.begin(), node.inputs.end(), is_operand) ||
        !std::all_of(node.outputs.begin(), node.outputs.end(), is_gradient)) {
      continue;
    }
    const auto elements = [&](const std::vector<ValueId>& values) {
      int64_t sum = 0;
      for (const ValueId id : values) sum += micro.value(id).type.shape.elements();
      return sum;
    };
    if (4 * elements(node.outputs) <= elements(node.inputs)) continue;
    left[n] = true;
    for (const ValueId id : node.outputs) {
      for (const int reader : uses[static_cast<size_t>(id)]) left[static_cast<size_t>(reader)] = true;
    }
  }
  return left;
}

std::vector<StageGraphs> make_stage_graphs(const TrainingStep& step, const std::vector<int>& stage_of_node,
                                           int stages, const std::vector<bool>& left, const Graph& micro) {
  const size_t count = stage_of_node.size();
  std::vector<bool> free(count);
  for (size_t n = 0; n < count; ++n) free[n] = stage_of_node[n] < 0;
  // Graphs are numbered: s is the graph of stage s over micro-batches, `stages` + s that of its weight
  // gradients.
  const auto graph_of = [&](size_t n) { return stage_of_node[n] + (left[n] ? stages : 0); };
  std::vector<bool> delivered(micro.values().size(), false);
  for (size_t n = 0; n < count; ++n) {
    if (free[n]) continue;
    for (const ValueId id : micro.nodes()[n].inputs) {
      if (id == kNoValue || micro.value(id).kind != ValueKind::result) continue;
      const auto made = static_cast<size_t>(micro.value(id).node);
      if (!free[made] && graph_of(made) != graph_of(n)) delivered[static_cast<size_t>(id)] = true;
    }
  }
  std::vector<StageGraphs> graphs;
  for (int s = 0; s < stages; ++s) {
    StageBuilder over_micro_batch(micro, free);
    StageBuilder over_batch(step.gradient, free);
    for (size_t n = 0; n < count; ++n) {
      if (n == step.forward_nodes) over_micro_batch.halt();
      if (stage_of_node[n] != s) continue;
      (left[n] ? over_batch : over_micro_batch).add(n, delivered);
    }
    graphs.push_back({over_micro_batch.build(), over_batch.build()});
  }
  return graphs;
}

namespace {

/// A value whose axis 0 is not the batch cannot pass to a later stage. If only later stages read it, as they
/// do the samples that they gather, the first of them makes it, unless that takes a parameter.
void move_to_readers(const Graph& forward, const std::vector<bool>& depends, std::vector<int>& stages) {
  const std::vector<bool> outermost = batch_is_outermost(forward);
  const auto uses = forward.uses();
  for (size_t n = stages.size(); n-- > 0;) {
    const Node& node = forward.nodes()[n];
    if (stages[n] < 0 || node.outputs.empty()) continue;
    const auto is_of = [](const std::vector<bool>& flags) {
      return [&flags](ValueId id) { return id != kNoValue && flags[static_cast<size_t>(id)]; };
    };
    if (!std::ranges::all_of(node.inputs, is_of(depends)) ||
        std::ranges::all_of(node.outputs, is_of(outermost)))
      continue;
    std::vector<int> readers;
    for (const ValueId id : node.outputs)
      for (const int reader : uses[static_cast<size_t>(id)])
        readers.push_back(stages[static_cast<size_t>(reader)]);
    if (!readers.empty()) stages[n] = std::max(stages[n], *std::ranges::min_element(readers));
  }
}

}  // namespace

std::vector<int> forward_stages(const Graph& forward, std::map<std::string, int>& stage_of_parameter) {
  // By value: the first stage that can read it; −1: any. Parameters whose stage is not known join their
  // reader's.
  std::vector<int> first(forward.values().size(), -1);
  std::vector<bool> depends(forward.values().size(), false);
  std::vector<std::vector<std::string>> unknown(forward.values().size());
  for (size_t v = 0; v < first.size(); ++v) {
    const Value& value = forward.values()[v];
    depends[v] = value.kind == ValueKind::input && value.batched;
    if (value.kind != ValueKind::parameter) continue;
    const auto known = stage_of_parameter.find(value.name);
    if (known == stage_of_parameter.end()) {
      unknown[v].push_back(value.name);
    } else {
      first[v] = known->second;
    }
  }
  std::vector<int> stages;
  for (const Node& node : forward.nodes()) {
    bool of_samples = node.op->has_effect();
    int stage = -1;
    std::vector<std::string> joining;
    for (const ValueId id : node.inputs) {
      if (id == kNoValue) continue;
      const auto v = static_cast<size_t>(id);
      of_samples = of_samples || depends[v];
      stage = std::max(stage, first[v]);
      joining.insert(joining.end(), unknown[v].begin(), unknown[v].end());
    }
    if (of_samples) {
      stage = std::max(stage, 0);
      for (const std::string& name : joining) stage_of_parameter.emplace(name, stage);
      joining.clear();
    }
    stages.push_back(of_samples ? stage : -1);
    for (const ValueId id : node.outputs) {
      const auto v = static_cast<size_t>(id);
      depends[v] = of_samples;
      first[v] = stage;
      unknown[v] = joining;
    }
  }
  move_to_readers(forward, depends, stages);
  return stages;
}

std::vector<Graph> make_forward_graphs(const Graph& forward, const std::vector<int>& stage_of_node,
                                       int stages) {
  const std::vector<bool> outermost = batch_is_outermost(forward);
  const auto stage_of_value = [&](ValueId id) {
    const Value& value = forward.value(id);
    return value.kind == ValueKind::result ? stage_of_node[static_cast<size_t>(value.node)] : -1;
  };
  std::vector<bool> free;
  for (const int stage : stage_of_node) free.push_back(stage < 0);
  std::vector<bool> delivered(forward.values().size(), false);
  for (size_t n = 0; n < stage_of_node.size(); ++n) {
    for (const ValueId id : forward.nodes()[n].inputs) {
      if (free[n] || id == kNoValue || stage_of_value(id) < 0 || stage_of_value(id) == stage_of_node[n])
        continue;
      if (!outermost[static_cast<size_t>(id)]) {
        throw user_error(
            "this model cannot be evaluated in stages that keep their layers: a value {} would pass from one to the other, and its first axis is not the batch; choose another strategy",
            forward.value(id).type.str());
      }
      delivered[static_cast<size_t>(id)] = true;
    }
  }
  std::vector<Graph> graphs;
  for (int s = 0; s < stages; ++s) {
    StageBuilder builder(forward, free);
    for (size_t n = 0; n < stage_of_node.size(); ++n)
      if (stage_of_node[n] == s) builder.add(n, delivered);
    for (const auto& [name, id] : forward.outputs())
      if (stage_of_value(id) == s) builder.output(name, id);
    graphs.push_back(builder.build());
  }
  return graphs;
}

}  // namespace telar
