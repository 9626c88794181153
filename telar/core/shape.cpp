#include "telar/core/shape.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "telar/core/error.h"

namespace telar {

std::optional<int64_t> product_within_int64(std::span<const int64_t> factors) {
  int64_t product = 1;
  for (const int64_t factor : factors) {
    if (__builtin_mul_overflow(product, factor == 0 ? 1 : factor, &product)) return std::nullopt;
  }
  return std::find(factors.begin(), factors.end(), 0) == factors.end() ? product : 0;
}

int64_t product_of(std::span<const int64_t> factors) {
  const auto product = product_within_int64(factors);
  if (!product) throw user_error("the product {} is too large for any computer", fmt::join(factors, " × "));
  return *product;
}

int64_t Shape::elements() const { return product_of(dims_); }

int64_t Shape::elements_per_item() const {
  return dims_.empty() ? 1 : product_of(std::span(dims_).subspan(1));
}

Shape Shape::with_batch(int64_t batch) const {
  Shape changed = *this;
  changed.dims_.at(0) = batch;
  return changed;
}

std::string Shape::str() const { return fmt::format("[{}]", fmt::join(dims_, ", ")); }

}  // namespace telar
