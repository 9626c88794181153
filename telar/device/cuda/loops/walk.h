#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace telar::cuda {

inline constexpr size_t kMostAxes = 8;

/// A divisor, at least 1, of numbers that are not negative. A GPU takes some twenty instructions for a
/// division by a number that it learns at run time; of 32 bits this one is a multiplication and a shift
/// (Granlund and Montgomery, Division by invariant integers using multiplication, 1994).
template <typename Index>
struct Divisor {
  Index value = 1;
  uint32_t multiplier = 0, shift = 0;

  Divisor() = default;
  explicit Divisor(Index of) : value(of) {
    if constexpr (sizeof(Index) == sizeof(uint32_t)) {
      const auto divisor = static_cast<uint64_t>(of);
      while ((uint64_t{1} << shift) < divisor) ++shift;
      multiplier = static_cast<uint32_t>((((uint64_t{1} << shift) - divisor) << 32) / divisor + 1);
    }
  }

  friend constexpr Index operator/(Index number, const Divisor& by) {
    if constexpr (sizeof(Index) == sizeof(uint32_t)) {
      const auto n = static_cast<uint32_t>(number);
      const auto high = static_cast<uint32_t>(uint64_t{n} * by.multiplier >> 32);
      return static_cast<Index>((high + n) >> by.shift);  // below 2^32: n is below 2^31
    } else {
      return number / by.value;
    }
  }
};

/// How several arrays are visited together. Element i of the walk, counted row-major over `extents`, is in
/// array k at the sum of index · strides[k] over the axes. A stride is 0 if the array has one element for the
/// whole axis. `Index` is int64_t, or a 32-bit type if it can count all elements: GPUs divide 32-bit numbers
/// several times as fast.
template <typename Index, size_t kArrays>
struct Walk {
  size_t axes = 0;
  std::array<Index, kMostAxes> extents{};
  std::array<std::array<Index, kMostAxes>, kArrays> strides{};

  /// The offset of element i in each of the arrays.
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

  /// The same walk with another index type.
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

/// Calls f(Index()) with the fastest type that can count `elements`.
template <typename F>
auto with_index(int64_t elements, const F& f) {
  if (elements <= INT32_MAX) return f(uint32_t());
  return f(int64_t());
}

}  // namespace telar::cuda
