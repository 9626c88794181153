#include "telar/strategy/gather_parameters.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "telar/graph/backward_part.h"
#include "telar/graph/rewrite.h"

namespace telar {

namespace {

/// Parameters that are gathered in one exchange.
using Gathered = std::vector<ValueId>;

/// The parameters with pieces, in the order in which the nodes read them.
std::vector<ValueId> in_reading_order(const Graph& graph, const Pieces& pieces) {
  std::vector<ValueId> order;
  std::set<ValueId> known;
  for (const Node& node : graph.nodes()) {
    for (const ValueId id : node.inputs) {
      if (id == kNoValue || graph.value(id).kind != ValueKind::parameter) continue;
      if (pieces.contains(graph.value(id).name) && known.insert(id).second) order.push_back(id);
    }
  }
  return order;
}

/// For each parameter with a piece, those with which it is gathered.
std::map<ValueId, Gathered> exchanges_of(const Graph& graph, const Pieces& pieces, size_t bytes) {
  std::map<ValueId, Gathered> exchanges;
  Gathered current;
  size_t filled = 0;
  const auto close = [&] {
    for (const ValueId id : current) exchanges[id] = current;
    current.clear();
    filled = 0;
  };
  for (const ValueId id : in_reading_order(graph, pieces)) {
    current.push_back(id);
    filled += static_cast<size_t>(graph.value(id).type.bytes());
    if (filled >= bytes) close();
  }
  close();
  return exchanges;
}

}  // namespace

Graph gather_parameters(const Graph& graph, const Pieces& pieces, const std::string& group, int64_t members,
                        size_t bytes) {
  const std::map<ValueId, Gathered> exchanges = exchanges_of(graph, pieces, bytes);
  std::map<ValueId, ValueId> kept;  // the pieces, by whole parameter
  std::set<ValueId> gathered;
  GraphBuilder builder;
  Remap remap(graph.values().size());
  for (size_t i = 0; i < graph.values().size(); ++i) {
    const Value& value = graph.values()[i];
    const auto id = static_cast<ValueId>(i);
    if (value.kind == ValueKind::result) continue;
    if (exchanges.contains(id)) {
      kept[id] = builder.parameter(value.name, {value.type.dtype, pieces.at(value.name).piece_shape()});
    } else {
      remap.set(id, builder.declare(value));
    }
  }
  for (const Node& node : graph.nodes()) {
    builder.set_scope(node.scope);
    for (const ValueId id : node.inputs) {
      const auto exchange = exchanges.find(id);
      if (exchange == exchanges.end() || gathered.contains(id)) continue;
      std::vector<ValueId> inputs;
      std::vector<int64_t> extents;
      for (const ValueId parameter : exchange->second) {
        inputs.push_back(kept.at(parameter));
        extents.push_back(graph.value(parameter).type.shape[0]);
      }
      const auto wholes = all_gather_parameters(builder, std::move(inputs), extents, group, members);
      for (size_t i = 0; i < wholes.size(); ++i) {
        remap.set(exchange->second[i], wholes[i]);
        gathered.insert(exchange->second[i]);
      }
    }
    copy_node(builder, node, remap);
  }
  builder.set_scope("");
  for (const auto& [name, value] : graph.outputs()) builder.output(name, remap(value));
  return builder.build();
}

Graph gather_again_in_backward(const Graph& gradient) {
  const size_t backward = backward_begin(gradient);
  const auto uses = gradient.uses();
  const auto in_backward = [&](ValueId id) {
    const auto& readers = uses[static_cast<size_t>(id)];
    return std::ranges::any_of(readers, [&](int n) { return static_cast<size_t>(n) >= backward; });
  };
  std::map<ValueId, const Node*> gathers;  // that of each gathered value
  for (size_t n = 0; n < backward; ++n) {
    const Node& node = gradient.nodes()[n];
    if (!node.op->exchanges_parameters()) continue;
    for (const ValueId id : node.outputs) gathers[id] = &node;
  }
  size_t n = 0;
  return rewrite_nodes(gradient, [&](GraphBuilder& builder, const Node& node, Remap& remap) {
    if (n++ >= backward) {
      for (const ValueId id : node.inputs) {
        const auto found = gathers.find(id);
        if (found == gathers.end()) continue;
        const Node& first = *found->second;
        const std::vector<int64_t>& extents = first.attributes.integers("extents");
        const std::vector<int64_t>& own = first.attributes.integers("own");
        std::vector<ValueId> pieces;
        std::vector<int64_t> of_pieces;
        std::vector<int64_t> own_of_pieces;
        std::vector<ValueId> wholes;
        for (size_t i = 0; i < first.outputs.size(); ++i) {
          if (!in_backward(first.outputs[i])) continue;
          pieces.push_back(remap(first.inputs[i]));
          of_pieces.push_back(extents[i]);
          own_of_pieces.push_back(own[i]);
          wholes.push_back(first.outputs[i]);
        }
        const auto again =
            builder.add(*first.op, std::move(pieces),
                        first.attributes.with("extents", of_pieces).with("own", own_of_pieces));
        for (size_t i = 0; i < wholes.size(); ++i) {
          remap.set(wholes[i], again[i]);
          gathers.erase(wholes[i]);
        }
      }
    }
    copy_node(builder, node, remap);
  });
}

}  // namespace telar
