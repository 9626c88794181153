#pragma once

#include <functional>
#include <string>
#include <vector>

#include "telar/nn/model_builder.h"
#include "telar/train/job_value.h"

namespace telar {

/// A key of an inline layer. Its type is that of `fallback`; lists of integers may be written as one number.
struct LayerOption {
  std::string name;
  Attribute fallback;
  ValueRule rule = {};
  bool required = false;
  size_t most_items = 0;      ///< lists: at most so many; 0: any number
  std::string fallback_text;  ///< for the documentation, where `fallback` does not say it
};

/// A type of layer that a job may write: what it takes, its keys, and how it is added to a model.
struct LayerType {
  std::string name;
  size_t least_inputs = 1;
  size_t most_inputs = 1;
  std::vector<LayerOption> options;
  std::function<ValueId(ModelBuilder& model, const LayerJob& layer, const std::vector<ValueId>& inputs)>
      build;
};

/// conv2d, linear, batch_norm … The types of docs/job.md.
const std::vector<LayerType>& layer_types();
std::vector<LayerType> weighted_layer_types();  ///< those with parameters
std::vector<LayerType> plain_layer_types();     ///< those without

/// Throws Error (user) for an unknown type, with the nearest; `where` is the line.
const LayerType& layer_type(const std::string& name, const std::string& where);

/// The table of layer types for docs/job.md: Markdown, a line for each.
std::string layer_reference_table();

}  // namespace telar
