#pragma once

#include <functional>
#include <string>
#include <vector>

#include "telar/nn/model_builder.h"
#include "telar/train/job_value.h"

namespace telar {

/// A layer type for use in a job: its inputs, its keys, and the function that adds it to a model.
struct LayerType {
  std::string name;
  size_t least_inputs = 1;
  size_t most_inputs = 1;
  std::vector<Option> options;  ///< a list of integers may be written as one number
  std::function<ValueId(ModelBuilder& model, const LayerJob& layer, const std::vector<ValueId>& inputs)>
      build;
};

/// The layer types of docs/job.md: conv2d, linear, batch_norm …
const std::vector<LayerType>& layer_types();
std::vector<LayerType> weighted_layer_types();  ///< layers with parameters
std::vector<LayerType> plain_layer_types();     ///< layers without parameters

/// Throws Error (user) for an unknown type and names the nearest; `where` is the line.
const LayerType& layer_type(const std::string& name, const std::string& where);

/// The table of layer types for docs/job.md: Markdown, one line per type.
std::string layer_reference_table();

}  // namespace telar
