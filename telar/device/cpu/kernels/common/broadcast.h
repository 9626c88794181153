#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "telar/core/shape.h"

namespace telar::cpu {

/// An axis of several tensors that are walked together: how far each of them advances with an index. A tensor
/// that is broadcast, or a sum, does not advance.
template <size_t Tensors>
struct WalkedAxis {
  int64_t extent = 1;
  std::array<int64_t, Tensors> steps = {};
};

/// The axes of a walk over the elements of `whole`. Adjacent axes along which all tensors advance alike are
/// one axis; there is at least one. `shapes`: of plain tensors of the same rank, whose extents are those of
/// `whole` or 1.
template <size_t Tensors>
std::vector<WalkedAxis<Tensors>> walk_of(const Shape& whole, const std::array<Shape, Tensors>& shapes);

enum class Elementwise : uint8_t { add, add_then_relu, mul };

/// Elements [begin, end) of y = a + b or a · b, where a and b are broadcast to y. Tensors of the walk: y, a,
/// b.
void run_broadcast(Elementwise operation, const std::vector<WalkedAxis<3>>& axes, const float* a,
                   const float* b, float* y, int64_t begin, int64_t end);

/// y = factor · the sums of x over the axes along which y does not advance. Tensors of the walk: x, y. The
/// caller's team computes it, in an order that does not depend on its threads.
void run_sums(const std::vector<WalkedAxis<2>>& axes, float factor, const float* x, float* y);

}  // namespace telar::cpu
