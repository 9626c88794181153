#include "telar/device/cuda/loops/activation.h"

#include "telar/device/cuda/check.h"
#include "telar/device/cuda/kernels.h"

namespace telar::cuda {

namespace {

Activation activation_of(std::string_view operation) {
  if (operation.starts_with("relu")) return Activation::relu;
  if (operation.starts_with("sigmoid")) return Activation::sigmoid;
  if (operation.starts_with("tanh")) return Activation::tanh;
  return Activation::gelu;
}

void lower_activation(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const RegionId from = lowering.region(x);
  const RegionId to = lowering.define_in_place(node.outputs[0], x);
  lowering.add({from}, {to},
               [f = activation_of(node.op->name()), dtype = lowering.dtype(x),
                count = lowering.shape(x).elements(), stream = lowering.stream()](const Pointers& p) {
                 check(activate(f, p[0], p[1], dtype, count, stream), "an activation");
               });
}

void lower_activation_backward(Lowering& lowering, const Node& node) {
  const ValueId dy = node.inputs[0];
  const ValueId data = node.inputs[1];
  const RegionId gradient = lowering.region(dy, lowering.layout(data));
  const RegionId known = lowering.region(data);
  // If dy was converted to the other layout, its own memory cannot be reused.
  const RegionId to = gradient == lowering.region(dy)
                          ? lowering.define_in_place(node.outputs[0], dy)
                          : lowering.define(node.outputs[0], lowering.layout(data));
  lowering.add({gradient, known}, {to},
               [f = activation_of(node.op->name()), dtype = lowering.dtype(dy),
                count = lowering.shape(dy).elements(), stream = lowering.stream()](const Pointers& p) {
                 check(activate_backward(f, p[0], p[1], p[2], dtype, count, stream),
                       "an activation's gradient");
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
  kernels.add("gelu", lower_activation);
  kernels.add("gelu_backward", lower_activation_backward);
  kernels.add("relu", lower_activation);
  kernels.add("relu_backward", lower_activation_backward);
  kernels.add("scale", lower_scale);
  kernels.add("sigmoid", lower_activation);
  kernels.add("sigmoid_backward", lower_activation_backward);
  kernels.add("tanh", lower_activation);
  kernels.add("tanh_backward", lower_activation_backward);
}

}  // namespace telar::cuda
