#include "telar/nn/initializers.h"

#include <cmath>

namespace telar {

Initializer constant_initializer(double value) { return {Initializer::Kind::constant, value, 0}; }

Initializer uniform_fan_in(int64_t fan_in) {
  const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
  return {Initializer::Kind::uniform, -bound, bound};
}

Initializer kaiming_normal_fan_out(int64_t fan_out) {
  return {Initializer::Kind::normal, 0, std::sqrt(2 / static_cast<double>(fan_out))};
}

Initializer standard_normal() { return {Initializer::Kind::normal, 0, 1}; }

}  // namespace telar
