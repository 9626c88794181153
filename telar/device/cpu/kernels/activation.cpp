#include "telar/device/cpu/kernels.h"
#include "telar/device/cpu/primitives.h"

namespace telar::cpu {

namespace {

/// The variants whose derivative is computed from the output, as the graph's backward operations expect;
/// gelu's is computed from the input.
dnnl::algorithm algorithm_of(std::string_view name) {
  if (name.starts_with("relu")) return dnnl::algorithm::eltwise_relu_use_dst_for_bwd;
  if (name.starts_with("sigmoid")) return dnnl::algorithm::eltwise_logistic_use_dst_for_bwd;
  if (name.starts_with("tanh")) return dnnl::algorithm::eltwise_tanh_use_dst_for_bwd;
  return dnnl::algorithm::eltwise_gelu_erf;
}

void lower_activation(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId y = node.outputs[0];
  const auto pd = eltwise_forward(algorithm_of(node.op->name()), lowering.layout(x));
  const RegionId from = lowering.region(x);
  lowering.define_in_place(y, x);
  lowering.primitive(pd, dnnl::eltwise_forward(pd),
                     {{DNNL_ARG_SRC, from}, {DNNL_ARG_DST, lowering.region(y)}});
}

void lower_activation_backward(Lowering& lowering, const Node& node) {
  const ValueId dy = node.inputs[0];
  const ValueId data = node.inputs[1];
  const dnnl::algorithm algorithm = algorithm_of(node.op->name());
  const Desc desc = lowering.layout(data);
  const auto pd = eltwise_backward(algorithm, desc, desc);
  const int data_argument = algorithm == dnnl::algorithm::eltwise_gelu_erf ? DNNL_ARG_SRC : DNNL_ARG_DST;
  const RegionId from = lowering.region(dy, desc);
  lowering.define_in_place(node.outputs[0], dy, desc);
  lowering.primitive(pd, dnnl::eltwise_backward(pd),
                     {{data_argument, lowering.region(data)},
                      {DNNL_ARG_DIFF_DST, from},
                      {DNNL_ARG_DIFF_SRC, lowering.region(node.outputs[0])}});
}

void lower_scale(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const auto pd = eltwise_forward(dnnl::algorithm::eltwise_linear, lowering.layout(x),
                                  static_cast<float>(node.attributes.real("factor")), 0.0F);
  const RegionId from = lowering.region(x);
  lowering.define_in_place(node.outputs[0], x);
  lowering.primitive(pd, dnnl::eltwise_forward(pd),
                     {{DNNL_ARG_SRC, from}, {DNNL_ARG_DST, lowering.region(node.outputs[0])}});
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

}  // namespace telar::cpu
