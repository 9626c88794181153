#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "telar/graph/training_step.h"

namespace telar {

/// A variable, or a part of it along one axis: what a parameter server or a worker keeps.
struct Piece {
  std::string variable;
  Shape shape;  ///< of the whole variable, canonical
  int64_t begin = 0;
  int64_t end = 0;  ///< items [begin, end) of `axis`
  size_t axis = 0;

  bool whole() const { return begin == 0 && end == shape[axis]; }
  int64_t floats() const { return piece_shape().elements(); }
  Shape piece_shape() const;
  /// "fc.weight", "fc.weight[0:512]" for rows 0 … 511, or "fc.weight[:, 0:512]" for columns.
  std::string name() const;

  /// Copies the piece out of the values of the whole variable, and into them; both row-major.
  void take_from(std::span<const float> whole, std::span<float> piece) const;
  void put_into(std::span<float> whole, std::span<const float> piece) const;

  bool operator==(const Piece&) const = default;

  static Piece all_of(const ParameterInfo& parameter);
};

/// By the names of their variables.
using Pieces = std::map<std::string, Piece>;

/// The bounds of `members` contiguous parts of nearly equal size, the larger ones first: part m is
/// [bounds[m], bounds[m + 1]).
std::vector<int64_t> equal_parts(int64_t extent, int64_t members);

}  // namespace telar
