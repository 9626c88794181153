#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace telar::cuda {

inline constexpr size_t kMostAxes = 8;

/// How some arrays are walked through together: element i of the walk, counted row-major over `extents`, lies
/// in array k at the sum of index · strides[k] over the axes. A stride is 0 where an array has one element
/// for the whole axis. `Index` is int64_t, or a type of 32 bits where all elements can be counted in it: a
/// GPU divides those several times as fast.
template <typename Index, size_t kArrays>
struct Walk {
  size_t axes = 0;
  std::array<Index, kMostAxes> extents{};
  std::array<std::array<Index, kMostAxes>, kArrays> strides{};

  /// Where element i lies in each of the arrays.
  constexpr std::array<Index, kArrays> offsets(Index i) const {
    std::array<Index, kArrays> sums{};
    for (size_t axis = axes; axis-- > 1;) {
      const Index rest = i / extents[axis];
      const Index index = i - rest * extents[axis];
      for (size_t k = 0; k < kArrays; ++k) sums[k] += index * strides[k][axis];
      i = rest;
    }
    for (size_t k = 0; k < kArrays; ++k) sums[k] += i * strides[k][0];
    return sums;
  }

  constexpr Index elements() const {
    Index count = 1;
    for (size_t axis = 0; axis < axes; ++axis) count *= extents[axis];
    return count;
  }

  /// The same, counted in another type.
  template <typename Other>
  constexpr Walk<Other, kArrays> in() const {
    Walk<Other, kArrays> same;
    same.axes = axes;
    for (size_t axis = 0; axis < axes; ++axis) {
      same.extents[axis] = static_cast<Other>(extents[axis]);
      for (size_t k = 0; k < kArrays; ++k) same.strides[k][axis] = static_cast<Other>(strides[k][axis]);
    }
    return same;
  }
};

template <size_t kArrays>
using LongWalk = Walk<int64_t, kArrays>;

/// f(Index()) with the type that counts `elements` fastest.
template <typename F>
auto with_index(int64_t elements, const F& f) {
  if (elements <= INT32_MAX) return f(uint32_t());
  return f(int64_t());
}

}  // namespace telar::cuda
