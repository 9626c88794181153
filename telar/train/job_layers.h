#pragma once

#include "telar/nn/model.h"
#include "telar/train/job.h"
#include "telar/train/job_node.h"

namespace telar {

/// Reads `model.layers`: a list of {type, name, from or inputs, keys of the type}. Every option of the type is in the result, and
/// every layer has a name. Throws Error (user) with the line.
std::vector<LayerJob> read_layers(const JobNode& list);

/// The model that the layers are. Throws Error (user) with layer and line when an input does not fit.
Model model_of_layers(const std::vector<LayerJob>& layers, const Shape& sample, DType input);

}  // namespace telar
