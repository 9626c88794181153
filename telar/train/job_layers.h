#pragma once

#include "telar/nn/model.h"
#include "telar/train/job.h"
#include "telar/train/job_node.h"

namespace telar {

/// Reads `model.layers`: a list of {type, name, from or inputs, keys of the type}. In the result every option
/// of the type is set, and every layer has a name. Throws Error (user) with the line.
std::vector<LayerJob> read_layers(const JobNode& list);

/// Builds a model from the layers. Throws Error (user) with layer and line if an input does not fit.
Model model_of_layers(const std::vector<LayerJob>& layers, const Shape& sample, DType input);

}  // namespace telar
