#pragma once

#include <string>

#include "telar/graph/training_step.h"

namespace telar {

/// A variable on a parameter server, or some of its rows (indices of its first axis).
struct Piece {
  std::string variable;
  Shape shape;  ///< of the whole variable, canonical
  int64_t begin = 0;
  int64_t end = 0;  ///< rows [begin, end)

  bool whole() const { return begin == 0 && end == shape[0]; }
  int64_t floats() const { return (end - begin) * shape.elements_per_item(); }
  Shape piece_shape() const { return shape.with_batch(end - begin); }
  /// "fc.weight", or "fc.weight[0:512]" for rows 0 … 511.
  std::string name() const;

  static Piece all_of(const ParameterInfo& parameter);
};

}  // namespace telar
