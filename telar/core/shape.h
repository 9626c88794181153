#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace telar {

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

  /// Number of elements.
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
