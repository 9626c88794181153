#include "telar/device/cuda/loops/softmax.h"

#include "telar/device/cuda/check.h"
#include "telar/device/cuda/kernels.h"
#include "telar/device/cuda/kernels/common/walks.h"

namespace telar::cuda {

namespace {

Lines lines_of(const Lowering& lowering, const Node& node, ValueId value) {
  const Shape& shape = lowering.shape(value);
  const auto axis = static_cast<size_t>(node.attributes.integer("axis"));
  return {shape.elements() / shape[axis], shape[axis], strides_of(shape, lowering.layout(value))[axis]};
}

void lower_softmax(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const RegionId from = lowering.region(x);
  const RegionId to = lowering.define_in_place(node.outputs[0], x);
  lowering.add({from}, {to},
               [lines = lines_of(lowering, node, x), dtype = lowering.dtype(x), stream = lowering.stream()](
                   const Pointers& p) { check(softmax(p[0], p[1], dtype, lines, stream), "softmax"); });
}

void lower_softmax_backward(Lowering& lowering, const Node& node) {
  const ValueId dy = node.inputs[0];
  const ValueId y = node.inputs[1];
  const ValueId dx = node.outputs[0];
  const Layout layout = lowering.layout(y);
  const RegionId gradient = lowering.region(dy, layout);
  const RegionId known = lowering.region(y);
  // If dy was converted to the other layout, its own memory cannot be reused.
  const RegionId to =
      lowering.layout(dy) == layout ? lowering.define_in_place(dx, dy) : lowering.define(dx, layout);
  lowering.add({gradient, known}, {to},
               [lines = lines_of(lowering, node, y), dtype = lowering.dtype(y),
                stream = lowering.stream()](const Pointers& p) {
                 check(softmax_backward(p[0], p[1], p[2], dtype, lines, stream), "softmax's gradient");
               });
}

}  // namespace

void register_softmax(Kernels& kernels) {
  kernels.add("softmax", lower_softmax);
  kernels.add("softmax_backward", lower_softmax_backward);
}

}  // namespace telar::cuda
