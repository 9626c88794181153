#include "telar/nn/summary.h"

#include <algorithm>
#include <map>

namespace telar {

Summary summarise(const Model& model) {
  const Graph graph = forward_graph(model, Mode::evaluation, 1);
  Summary summary;
  std::map<std::string, int64_t> unseen;
  for (const ParameterInfo& parameter : parameters_of(model)) {
    (parameter.trainable ? summary.trained : summary.running_statistics) += parameter.shape.elements();
    if (parameter.trainable) unseen[parameter.name] = parameter.shape.elements();
  }
  for (const Node& node : graph.nodes()) {
    SummaryRow row{
        node.scope, std::string(node.op->name()), graph.value(node.outputs.at(0)).type.shape, 0,
        node.op->multiply_adds(graph.input_types(node), graph.output_types(node), node.attributes)};
    for (const ValueId id : node.inputs) {
      if (id == kNoValue || graph.value(id).kind != ValueKind::parameter) continue;
      const auto found = unseen.find(graph.value(id).name);
      if (found == unseen.end()) continue;
      row.parameters += found->second;
      unseen.erase(found);
    }
    summary.multiply_adds += row.multiply_adds;
    summary.rows.push_back(std::move(row));
  }
  return summary;
}

int64_t peak_result_bytes(const Graph& graph) {
  const auto uses = graph.uses();
  std::vector<int64_t> freed_after(graph.nodes().size(), 0);
  int64_t alive = 0;
  int64_t peak = 0;
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    for (const ValueId id : node.op->is_view() ? std::vector<ValueId>{} : node.outputs) {
      const int64_t bytes = graph.value(id).type.bytes();
      const auto& readers = uses[static_cast<size_t>(id)];
      const auto last = readers.empty() ? n : static_cast<size_t>(readers.back());
      freed_after[last] += bytes;
      alive += bytes;
    }
    peak = std::max(peak, alive);
    alive -= freed_after[n];
  }
  return peak;
}

}  // namespace telar
