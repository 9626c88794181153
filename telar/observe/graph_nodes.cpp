#include "telar/observe/graph_nodes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <variant>

namespace telar {
namespace {

/// Only these characters are allowed in a node's name; a dot separates layers and becomes a slash.
std::string legal(const std::string& name) {
  std::string text = name;
  for (char& c : text) {
    if (c == '.') c = '/';
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_' && c != '-' && c != '/') c = '_';
  }
  return text;
}

std::string_view op_of(ValueKind kind) { return kind == ValueKind::input ? "Placeholder" : "Variable"; }

class Converter {
 public:
  Converter(const Graph& graph, const std::string& device, const std::string& prefix,
            const std::map<std::string, std::string>& device_of)
      : graph_(graph),
        device_(device),
        device_of_(device_of),
        prefix_(prefix.empty() ? "" : legal(prefix) + "/"),
        names_(graph.values().size()) {}

  std::vector<GraphNode> run() {
    for (size_t id = 0; id < graph_.values().size(); ++id) {
      if (graph_.values()[id].kind != ValueKind::result) add_source(id);
    }
    for (const Node& node : graph_.nodes()) add_operation(node);
    return std::move(nodes_);
  }

 private:
  void add_source(size_t id) {
    const Value& value = graph_.values()[id];
    names_[id] = unique(legal(value.text()));
    const auto placed = value.kind == ValueKind::parameter ? device_of_.find(value.name) : device_of_.end();
    nodes_.push_back({names_[id],
                      std::string(op_of(value.kind)),
                      {},
                      placed == device_of_.end() ? device_ : placed->second,
                      {{"type", value.type.str()}},
                      {value.type.shape}});
  }

  void add_operation(const Node& node) {
    const std::string kind(node.op->name());
    const std::string name = unique(node.scope.empty() ? legal(kind) : legal(node.scope) + "/" + legal(kind));
    GraphNode shown{name, kind, {}, device_, {}, {}};
    for (const ValueId input : node.inputs) {
      if (input != kNoValue) shown.inputs.push_back(names_[static_cast<size_t>(input)]);
    }
    for (const auto& [key, value] : node.attributes) {
      shown.attributes[key] = std::visit([](const auto& v) { return fmt::format("{}", v); }, value);
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      names_[static_cast<size_t>(node.outputs[i])] = i == 0 ? name : fmt::format("{}:{}", name, i);
      shown.output_shapes.push_back(graph_.value(node.outputs[i]).type.shape);
    }
    nodes_.push_back(std::move(shown));
  }

  /// Returns the first free name of "NAME", "NAME_1", "NAME_2", …
  std::string unique(const std::string& wanted) {
    std::string name = prefix_ + wanted;
    for (int i = 1; !taken_.insert(name).second; ++i) name = fmt::format("{}{}_{}", prefix_, wanted, i);
    return name;
  }

  const Graph& graph_;
  const std::string& device_;
  const std::map<std::string, std::string>& device_of_;
  std::string prefix_;
  std::vector<std::string> names_;  ///< of the node that makes each value
  std::set<std::string> taken_;
  std::vector<GraphNode> nodes_;
};

}  // namespace

std::vector<GraphNode> graph_nodes(const Graph& graph, const std::string& device, const std::string& prefix,
                                   const std::map<std::string, std::string>& device_of) {
  return Converter(graph, device, prefix, device_of).run();
}

}  // namespace telar
