#include "telar/device/cuda/loops/arithmetic.h"

#include <algorithm>

#include "telar/device/cuda/check.h"
#include "telar/device/cuda/kernels.h"
#include "telar/device/cuda/kernels/common/walks.h"

namespace telar::cuda {

namespace {

/// Operands of one shape are computed in storage order. If their layouts differ, channels last is used.
void lower_alike(Lowering& lowering, Combination combination, ValueId a, ValueId b, ValueId y) {
  const Layout layout = std::max(lowering.layout(a), lowering.layout(b));
  const RegionId first = lowering.region(a, layout);
  const RegionId second = lowering.region(b, layout);
  // If an operand was converted to the other layout, its own memory cannot be reused.
  const RegionId to =
      lowering.layout(a) == layout ? lowering.define_in_place(y, a) : lowering.define(y, layout);
  lowering.add({first, second}, {to},
               [=, dtype = lowering.dtype(y), count = lowering.shape(y).elements(),
                stream = lowering.stream()](const Pointers& p) {
                 check(combine(combination, p[0], p[1], p[2], dtype, count, stream), "adding or multiplying");
               });
}

/// The result has the layout of the operand of its shape. The other operand is read in its own layout.
void lower_broadcast(Lowering& lowering, Combination combination, ValueId a, ValueId b, ValueId y) {
  const Shape& shape = lowering.shape(y);
  const bool whole = lowering.shape(a) == shape;
  const RegionId first = lowering.region(a);
  const RegionId second = lowering.region(b);
  const Layout layout = whole ? lowering.layout(a) : Layout::plain;
  const auto a_strides = broadcast_strides(lowering.shape(a), lowering.layout(a), shape.rank());
  const auto b_strides = broadcast_strides(lowering.shape(b), lowering.layout(b), shape.rank());
  LongWalk<2> walk;
  for (const size_t axis : axes_as_they_lie(shape.rank(), layout))
    append_axis(walk, shape[axis], {a_strides[axis], b_strides[axis]});
  const RegionId to = whole ? lowering.define_in_place(y, a) : lowering.define(y, layout);
  lowering.add(
      {first, second}, {to}, [=, dtype = lowering.dtype(y), stream = lowering.stream()](const Pointers& p) {
        check(combine_walked(combination, p[0], p[1], p[2], dtype, walk, stream), "adding or multiplying");
      });
}

void lower_combination(Lowering& lowering, const Node& node, Arithmetic operation) {
  const ValueId y = node.outputs[0];
  const Shape& shape = lowering.shape(y);
  ValueId a = node.inputs[0];
  ValueId b = node.inputs[1];
  if (lowering.shape(a) != shape) std::swap(a, b);  // both are symmetric
  const Combination combination{operation, node.attributes.text_or("activation", "") == "relu"};
  if (lowering.shape(a) == shape && lowering.shape(b) == shape) {
    lower_alike(lowering, combination, a, b, y);
  } else {
    lower_broadcast(lowering, combination, a, b, y);
  }
}

void lower_add(Lowering& lowering, const Node& node) { lower_combination(lowering, node, Arithmetic::add); }

void lower_mul(Lowering& lowering, const Node& node) {
  lower_combination(lowering, node, Arithmetic::multiply);
}

}  // namespace

void register_arithmetic(Kernels& kernels) {
  kernels.add("add", lower_add);
  kernels.add("mul", lower_mul);
}

}  // namespace telar::cuda
