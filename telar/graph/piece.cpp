#include "telar/graph/piece.h"

#include <fmt/format.h>

namespace telar {

std::string Piece::name() const {
  return whole() ? variable : fmt::format("{}[{}:{}]", variable, begin, end);
}

Piece Piece::all_of(const ParameterInfo& parameter) {
  return {parameter.name, parameter.shape, 0, parameter.shape[0]};
}

}  // namespace telar
