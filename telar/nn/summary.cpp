#include "telar/nn/summary.h"

#include <algorithm>
#include <map>
#include <vector>

namespace telar {

Summary summarise(const Model& model) {
  const Graph graph = forward_graph(model, Mode::evaluation, 1);
  Summary summary;
  std::map<std::string, int64_t> unseen;
  for (const ParameterInfo& parameter : parameters_of(model)) {
    (parameter.trainable                            ? summary.trained
     : model.frozen && model.frozen(parameter.name) ? summary.frozen
                                                    : summary.running_statistics) +=
        parameter.shape.elements();
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

namespace {

/// The bytes of the results in use while each node runs, and of those that are kept after it for later nodes.
struct ResultBytes {
  int64_t in_use = 0;
  int64_t kept = 0;
};

std::vector<ResultBytes> result_bytes(const Graph& graph) {
  const auto uses = graph.uses();
  // A device adds what is only accumulated where it computes it.
  const auto accumulated = [&](const auto& readers) {
    return !readers.empty() && std::ranges::all_of(readers, [&](auto reader) {
      return graph.nodes()[static_cast<size_t>(reader)].op->name() == "accumulate";
    });
  };
  std::vector<ResultBytes> freed_after(graph.nodes().size());
  std::vector<ResultBytes> bytes;
  ResultBytes alive;
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    for (const ValueId id : node.op->is_view() ? std::vector<ValueId>{} : node.outputs) {
      const int64_t size = graph.value(id).type.bytes();
      const auto& readers = uses[static_cast<size_t>(id)];
      const auto last = readers.empty() ? n : static_cast<size_t>(readers.back());
      const int64_t kept = accumulated(readers) ? 0 : size;
      freed_after[last].in_use += size;
      freed_after[last].kept += kept;
      alive.in_use += size;
      alive.kept += kept;
    }
    bytes.push_back({alive.in_use, alive.kept - freed_after[n].kept});
    alive.in_use -= freed_after[n].in_use;
    alive.kept -= freed_after[n].kept;
  }
  return bytes;
}

}  // namespace

int64_t peak_result_bytes(const Graph& graph) {
  int64_t peak = 0;
  for (const ResultBytes& bytes : result_bytes(graph)) peak = std::max(peak, bytes.in_use);
  return peak;
}

int64_t kept_result_bytes(const Graph& graph) {
  int64_t most = 0;
  for (const ResultBytes& bytes : result_bytes(graph)) most = std::max(most, bytes.kept);
  return most;
}

}  // namespace telar
