#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "telar/graph/ops/communication.h"
#include "telar/graph/piece.h"
#include "telar/strategy/pieces.h"

namespace telar {

/// How a layer with weights [out, in, …] is divided among the members of a group.
///
/// columns: each member computes some of the output features, for the samples of all members.
/// rows: each member multiplies some of the input features, again for all samples, and the products are
/// added.
///
/// Alternating, one exchange serves two layers: the output of a layer with columns is the input of one with
/// rows, and what lies between (activations, pooling, dropout) is computed on parts, too (Shoeybi et al.,
/// "Megatron-LM", 2019). All other layers are data parallel: each member has its own samples (Krizhevsky,
/// "One weird trick for parallelizing convolutional neural networks", 2014).
enum class LayerSplit : uint8_t { columns, rows };

/// An embedding can be divided by the rows of its table (its vocabulary): each member looks up the tokens of
/// all samples in its rows, zeros elsewhere, and the results are added.
///
/// By the name of the layer's weight. Layers that are not named stay whole.
using LayerSplits = std::map<std::string, LayerSplit>;

/// A graph with some layers divided, as one member of the group runs it.
struct DividedGraph {
  Graph graph;
  Pieces pieces;        ///< of the parameters that the member does not have whole
  Divisions divisions;  ///< of the same
};

/// Divides layers of a forward graph and inserts the exchanges between members. Throws Error (user), naming
/// the layer, for one with fewer features than the group has members.
DividedGraph divide_layers(const Graph& forward, const LayerSplits& layers, const SampleGroup& group);

/// For each value of a forward graph, whether its rows (axis 0) belong to samples: there are twice as many
/// for a batch twice as large.
std::vector<bool> rows_of_samples(const Graph& forward);

/// Whether the node looks up rows of a table, input 1, by tokens.
bool looks_up(const Graph& graph, const Node& node);

/// The parameter that holds the weights of a node for which Op::is_weighted_sum() or looks_up() holds;
/// kNoValue when its weights are computed.
ValueId weights_of(const Graph& graph, const Node& node);

}  // namespace telar
