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
  std::vector<Shape> output_shapes;  ///< written on the edges; may be empty
};

/// The nodes of `graph` for TensorBoard: each operation under its layer (scope "layer1.0.conv1" becomes the boxes
/// "layer1/0/conv1"), inputs as placeholders, parameters and buffers as variables inside the layer that they are
/// named after. `device` is where the graph runs, `device_of` where a variable lies (empty: there too); `prefix` ("worker0") puts all of it in a box of that name, so that
/// the graphs of several workers can stand in one list.
std::vector<GraphNode> graph_nodes(const Graph& graph, const std::string& device,
                                   const std::string& prefix = "",
                                   const std::map<std::string, std::string>& device_of = {});

}  // namespace telar
