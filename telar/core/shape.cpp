#include "telar/core/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <numeric>

namespace telar {

int64_t Shape::elements() const {
  return std::accumulate(dims_.begin(), dims_.end(), int64_t{1}, std::multiplies<>());
}

int64_t Shape::elements_per_item() const {
  if (dims_.empty()) return 1;
  return std::accumulate(dims_.begin() + 1, dims_.end(), int64_t{1}, std::multiplies<>());
}

Shape Shape::with_batch(int64_t batch) const {
  Shape changed = *this;
  changed.dims_.at(0) = batch;
  return changed;
}

std::string Shape::str() const { return fmt::format("[{}]", fmt::join(dims_, ", ")); }

}  // namespace telar
