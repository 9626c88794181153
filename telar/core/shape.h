#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace telar {

/// The product of extents, counts and sizes, each at least 0, or nothing if it exceeds int64_t. A factor of 0
/// does not hide that the other factors do. All products of extents that come from a file or a job are
/// computed here or in product_of().
std::optional<int64_t> product_within_int64(std::span<const int64_t> factors);

/// The same product. Throws Error (user), naming the factors, if it exceeds int64_t.
int64_t product_of(std::span<const int64_t> factors);
inline int64_t product_of(std::initializer_list<int64_t> factors) {
  return product_of(std::span(factors.begin(), factors.size()));
}

/// Extents of a tensor, outermost first (images: N, C, H, W). A scalar is the shape [1].
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
  explicit Shape(std::vector<int64_t> dims) : dims_(std::move(dims)) {}

  size_t rank() const { return dims_.size(); }
  int64_t operator[](size_t axis) const { return dims_[axis]; }
  int64_t& operator[](size_t axis) { return dims_[axis]; }
  const std::vector<int64_t>& dims() const { return dims_; }
  auto begin() const { return dims_.begin(); }
  auto end() const { return dims_.end(); }

  /// Number of elements. Throws Error (user) if it exceeds int64_t.
  int64_t elements() const;
  /// Elements of one item of axis 0: the product of the other extents.
  int64_t elements_per_item() const;
  /// A copy of this shape with the extent of axis 0 replaced.
  Shape with_batch(int64_t batch) const;
  /// "[32, 3, 28, 28]".
  std::string str() const;

  bool operator==(const Shape&) const = default;

 private:
  std::vector<int64_t> dims_;
};

}  // namespace telar
