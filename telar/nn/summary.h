#pragma once

#include <string>
#include <vector>

#include "telar/nn/model.h"

namespace telar {

/// One operation of the forward pass.
struct SummaryRow {
  std::string layer;      ///< scope of the layer: "layer1.0.conv1"; empty for operations between named layers
  std::string operation;  ///< "conv2d"
  Shape output;           ///< for a batch of 1
  int64_t parameters;     ///< number of trained values first used here
  int64_t multiply_adds;  ///< of one sample
};

/// The structure of a model: the table of `telar show`.
struct Summary {
  std::vector<SummaryRow> rows;
  int64_t trained = 0;             ///< number of values that the optimizer changes
  int64_t running_statistics = 0;  ///< number of values that follow the batches
  int64_t frozen = 0;              ///< number of values that stay
  int64_t multiply_adds = 0;       ///< of one sample, forward
};

/// Throws Error (user) when the model does not fit its own samples.
Summary summarise(const Model& model);

/// Largest number of bytes of results in use at once, when the nodes run in order and each result is freed
/// after its last use. This is what a graph's activations and gradients need before a device merges
/// operations or works in place. Results whose size only a device knows (workspaces) are not counted, nor are
/// reshapes, which move nothing.
int64_t peak_result_bytes(const Graph& graph);

/// The most that is kept between two nodes, apart from what is accumulated: what every device needs, although
/// it works in place.
int64_t kept_result_bytes(const Graph& graph);

}  // namespace telar
