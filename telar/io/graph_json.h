#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "telar/graph/graph.h"

namespace telar {

/// A graph as JSON: the list of calls that build it, in their order, so that values have the same ids again.
///
///     [{"kind": "input", "name": "step", "type": "f32", "shape": [1]},
///      {"kind": "parameter", "name": "fc.bias", "type": "f32", "shape": [10]},
///      {"kind": "buffer", "name": "gradient/fc.bias", "type": "f32", "shape": [10]},
///      {"kind": "operation", "name": "sgd_update", "inputs": [1, 2, -1, -1, 0, -1],
///       "attributes": {"momentum": 0.0, "nesterov": false, "weight_decay": 0.0}, "scope": "fc.bias"},
///      {"kind": "output", "name": "prediction", "value": 7}]
///
/// An input is a value's id; -1 is an optional input that is absent. An input whose axis 0 is the batch has
/// "batched": true. An attribute that is a list is {"integers": […]}, {"reals": […]} or {"texts": […]}.
nlohmann::json json_of(const Graph& graph);

/// Adds the operation with this name to the graph, or returns false if a graph from outside may not contain
/// one. The inputs are values of the graph, or kNoValue.
using AddOperation = std::function<bool(GraphBuilder& graph, const std::string& name,
                                        std::vector<ValueId> inputs, Attributes attributes)>;

/// The graph of such a list: its text (Graph::str) is that of the graph that was written. `source` is the
/// sender, for messages. Every field is checked, and so are the operations' inputs and attributes, by `add`;
/// a graph has at most 65536 entries. Throws Error (user).
Graph graph_of_json(const nlohmann::json& entries, const AddOperation& add, const std::string& source);

/// Returns the operation with this name, or null if a graph from outside may not contain one.
using FindOperation = std::function<const Op*(std::string_view name)>;
/// For operations that check inputs and attributes by their own rules (Op::infer).
AddOperation add_found(FindOperation find);

}  // namespace telar
