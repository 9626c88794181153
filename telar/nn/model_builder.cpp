#include "telar/nn/model_builder.h"

#include <algorithm>

#include "telar/core/error.h"
#include "telar/graph/ops/accumulate.h"

namespace telar {

std::string ModelBuilder::scoped(const std::string& name) const {
  return graph_.scope().empty() ? name : graph_.scope() + "." + name;
}

/// Adds the parameter to the list; false when it is already known: a shared parameter.
bool ModelBuilder::record(const ParameterInfo& parameter) {
  const auto known = std::find_if(parameters_.begin(), parameters_.end(),
                                  [&](const ParameterInfo& p) { return p.name == parameter.name; });
  if (known == parameters_.end()) {
    parameters_.push_back(parameter);
    return true;
  }
  if (known->shape != parameter.shape) {
    throw user_error("parameter '{}' is used as {} and as {}; give the two layers different names",
                     parameter.name, known->shape.str(), parameter.shape.str());
  }
  return false;
}

ValueId ModelBuilder::input(const std::string& name, DType dtype, const Shape& sample) {
  std::vector<int64_t> dims{batch_};
  dims.insert(dims.end(), sample.begin(), sample.end());
  const TensorType type{dtype, Shape(std::move(dims))};
  const auto known = inputs_.find(name);
  if (known == inputs_.end())
    return inputs_.emplace(name, std::pair(type, graph_.input(name, type, true))).first->second.second;
  if (known->second.first != type)
    throw user_error("input '{}' is used as {} and as {}; give the two different names", name,
                     known->second.first.str(), type.str());
  return known->second.second;
}

ValueId ModelBuilder::parameter(const std::string& name, const Shape& shape, const Initializer& initializer) {
  record({scoped(name), shape, !is_frozen(name), initializer});
  return graph_.parameter(scoped(name), {DType::f32, shape});
}

ValueId ModelBuilder::running_statistic(const std::string& name, const Shape& shape, double initial,
                                        double momentum, ValueId batch_statistic, ValueId batch_of) {
  const std::string full = scoped(name);
  const bool adds = training() && !is_frozen(name);
  if (record({full, shape, false, {Initializer::Kind::constant, initial, 0}})) {
    if (!is_frozen(name)) running_statistics_.push_back({full, momentum});
  } else if (training()) {
    throw user_error("running statistic '{}' belongs to two layers; give them different names", full);
  }
  if (!adds) return graph_.parameter(full, {DType::f32, shape});
  const ValueId sum = graph_.gradient(full, {DType::f32, shape});
  accumulate_times_batch(graph_, sum, batch_statistic, batch_of);
  return kNoValue;
}

void ModelBuilder::require_rank(const char* layer, ValueId x, size_t rank, size_t or_rank) const {
  const Shape given = shape(x);
  if (given.rank() == rank || (or_rank != 0 && given.rank() == or_rank)) return;
  throw user_error("layer '{}': {} takes an input of {}{} axes, the batch first, not {}", graph_.scope(),
                   layer, rank, or_rank == 0 ? "" : fmt::format(" or {}", or_rank), given.str());
}

}  // namespace telar
