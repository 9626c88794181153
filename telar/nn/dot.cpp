#include "telar/nn/dot.h"

#include <fmt/format.h>

namespace telar {

namespace {

std::string quoted(const std::string& text) {
  std::string escaped = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += c == '\n' ? ' ' : c;
  }
  return escaped + '"';
}

}  // namespace

std::string to_dot(const Graph& graph) {
  std::string text = "digraph telar {\n  rankdir=TB;\n  node [fontname=\"sans-serif\", fontsize=10];\n";
  const auto node_of = [&](ValueId id) {
    const Value& value = graph.value(id);
    return value.kind == ValueKind::result ? fmt::format("n{}", value.node) : fmt::format("v{}", id);
  };
  for (size_t i = 0; i < graph.values().size(); ++i) {
    const Value& value = graph.values()[i];
    if (value.kind == ValueKind::result) continue;
    text +=
        fmt::format("  v{} [shape=ellipse, label={}];\n", i, quoted(value.text() + ": " + value.type.str()));
  }
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    std::string label(node.op->name());
    if (!node.scope.empty()) label = node.scope + ": " + label;
    if (!node.outputs.empty()) label += " → " + graph.value(node.outputs[0]).type.str();
    text += fmt::format("  n{} [shape=box, label={}];\n", n, quoted(label));
    for (const ValueId id : node.inputs) {
      if (id != kNoValue) text += fmt::format("  {} -> n{};\n", node_of(id), n);
    }
  }
  for (const auto& [name, id] : graph.outputs()) {
    text += fmt::format("  out_{} [shape=ellipse, label={}];\n  {} -> out_{};\n", id, quoted(name),
                        node_of(id), id);
  }
  return text + "}\n";
}

}  // namespace telar
