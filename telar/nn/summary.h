#pragma once

#include <string>
#include <vector>

#include "telar/nn/model.h"

namespace telar {

/// One operation of the forward pass.
struct SummaryRow {
  std::string layer;      ///< its scope: "layer1.0.conv1"; empty for what stands between named layers
  std::string operation;  ///< "conv2d"
  Shape output;           ///< for a batch of 1
  int64_t parameters;     ///< trained numbers first used here
  int64_t multiply_adds;  ///< of one sample
};

/// What a model is made of: the table of `telar show`.
struct Summary {
  std::vector<SummaryRow> rows;
  int64_t trained = 0;             ///< numbers that the optimizer changes
  int64_t running_statistics = 0;  ///< numbers that follow the batches
  int64_t multiply_adds = 0;       ///< of one sample, forward
};

/// Throws Error (user) when the model does not fit its own samples.
Summary summarise(const Model& model);

/// Bytes of results alive at once, at most, when the nodes run in order and each result dies after its last use: what the
/// activations and gradients of a graph need, before a device merges operations or works in place. Results whose size only
/// a device knows (workspaces) and reshapes, which move nothing, count nothing.
int64_t peak_result_bytes(const Graph& graph);

}  // namespace telar
