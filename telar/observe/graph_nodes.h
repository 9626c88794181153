#pragma once

#include <map>
#include <string>
#include <vector>

#include "telar/core/shape.h"
#include "telar/graph/graph.h"

namespace telar {

/// A node of a graph as TensorBoard shows it.
struct GraphNode {
  std::string name;                 ///< unique; "/" opens a box: "layer1/0/conv1/conv2d"
  std::string op;                   ///< "conv2d", "Placeholder", "Variable"
  std::vector<std::string> inputs;  ///< names of nodes; "NAME:1" for a second output
  std::string device;               ///< "/job:worker/replica:0/device:CPU:0"
  std::map<std::string, std::string> attributes;
  std::vector<Shape> output_shapes;  ///< shown on the edges; may be empty
};

/// Converts `graph` to nodes for TensorBoard: each operation under its layer (scope "layer1.0.conv1" becomes
/// the boxes "layer1/0/conv1"), inputs as placeholders, parameters and buffers as variables inside the layer
/// that their name contains. `device` is where the graph runs. `device_of` is where a variable is stored;
/// empty: on the same device. `prefix` ("worker0") puts everything in a box of that name, so that one list
/// can contain the graphs of several workers.
std::vector<GraphNode> graph_nodes(const Graph& graph, const std::string& device,
                                   const std::string& prefix = "",
                                   const std::map<std::string, std::string>& device_of = {});

}  // namespace telar
