#include "telar/device/cuda/loops/activation.h"

#include "telar/device/cuda/check.h"
#include "telar/device/cuda/kernels.h"

namespace telar::cuda {

namespace {

void lower_activation(Lowering& lowering, const Node& node, const ActivationLoop& loop) {
  const ValueId x = node.inputs[0];
  const RegionId from = lowering.region(x);
  const RegionId to = lowering.define_in_place(node.outputs[0], x);
  lowering.add(
      {from}, {to},
      [loop, dtype = lowering.dtype(x), count = lowering.shape(x).elements(), stream = lowering.stream()](
          const Pointers& p) { check(loop.forward(p[0], p[1], dtype, count, stream), "an activation"); });
}

void lower_activation_backward(Lowering& lowering, const Node& node, const ActivationLoop& loop) {
  const ValueId dy = node.inputs[0];
  const ValueId data = node.inputs[1];
  const RegionId gradient = lowering.region(dy, lowering.layout(data));
  const RegionId known = lowering.region(data);
  // If dy was converted to the other layout, its own memory cannot be reused.
  const RegionId to = gradient == lowering.region(dy)
                          ? lowering.define_in_place(node.outputs[0], dy)
                          : lowering.define(node.outputs[0], lowering.layout(data));
  lowering.add({gradient, known}, {to},
               [loop, dtype = lowering.dtype(dy), count = lowering.shape(dy).elements(),
                stream = lowering.stream()](const Pointers& p) {
                 check(loop.backward(p[0], p[1], p[2], dtype, count, stream), "an activation's gradient");
               });
}

void lower_scale(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const RegionId from = lowering.region(x);
  const RegionId to = lowering.define_in_place(node.outputs[0], x);
  lowering.add({from}, {to},
               [factor = static_cast<float>(node.attributes.real("factor")), dtype = lowering.dtype(x),
                count = lowering.shape(x).elements(), stream = lowering.stream()](const Pointers& p) {
                 check(scale_values(p[0], factor, p[1], dtype, count, stream), "a scaling");
               });
}

}  // namespace

void register_activation(Kernels& kernels) {
  for (const ActivationLoop& loop : activation_loops()) {
    kernels.add(loop.name,
                [loop](Lowering& lowering, const Node& node) { lower_activation(lowering, node, loop); });
    kernels.add(loop.name + "_backward", [loop](Lowering& lowering, const Node& node) {
      lower_activation_backward(lowering, node, loop);
    });
  }
  kernels.add("scale", lower_scale);
}

}  // namespace telar::cuda
