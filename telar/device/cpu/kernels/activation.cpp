#include <functional>
#include <numeric>

#include "telar/device/cpu/kernels.h"
#include "telar/device/cpu/primitives.h"

namespace telar::cpu {

namespace {

/// How oneDNN computes an activation. Its derivative is computed of the input or, by the variants with
/// "use_dst" in their name, of the output.
struct Eltwise {
  dnnl::algorithm algorithm;
  int slope_of = DNNL_ARG_DST;  ///< DNNL_ARG_SRC: of the input
  float alpha = 0;
};

void lower_activation(Lowering& lowering, const Node& node, const Eltwise& f) {
  const ValueId x = node.inputs[0];
  const ValueId y = node.outputs[0];
  const auto pd = eltwise_forward(f.algorithm, lowering.layout(x), f.alpha);
  const RegionId from = lowering.region(x);
  lowering.define_in_place(y, x);
  lowering.primitive(pd, dnnl::eltwise_forward(pd),
                     {{DNNL_ARG_SRC, from}, {DNNL_ARG_DST, lowering.region(y)}});
}

/// How oneDNN sees the memory of an activation's gradient: blocks of channels that are not full as one row,
/// because it has fast kernels only for memory without padding. The padding of dy is zero, and so is that of
/// dx then.
Desc without_padding(const Desc& desc) {
  if (!blocks_of(desc).padded) return desc;
  const auto& extents = desc.data.padded_dims;
  const int64_t count = std::accumulate(extents, extents + desc.data.ndims, int64_t{1}, std::multiplies<>());
  const bool whole =
      static_cast<size_t>(count) * dnnl::memory::data_type_size(desc.data_type()) == desc.get_size();
  return whole ? Desc({count}, desc.data_type(), Tag::a) : desc;
}

void lower_activation_backward(Lowering& lowering, const Node& node, const Eltwise& f) {
  const ValueId dy = node.inputs[0];
  const ValueId data = node.inputs[1];
  const Desc desc = lowering.layout(data);
  const Desc seen = without_padding(desc);
  const auto pd = eltwise_backward(f.algorithm, seen, seen, f.alpha);
  const RegionId from = lowering.region(dy, desc);
  lowering.define_in_place(node.outputs[0], dy, desc);
  lowering.primitive(pd, dnnl::eltwise_backward(pd),
                     {{f.slope_of, lowering.view(lowering.region(data), seen)},
                      {DNNL_ARG_DIFF_DST, lowering.view(from, seen)},
                      {DNNL_ARG_DIFF_SRC, lowering.view(lowering.region(node.outputs[0]), seen)}});
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
  const auto add = [&](const std::string& name, const Eltwise& f) {
    kernels.add(name, [f](Lowering& lowering, const Node& node) { lower_activation(lowering, node, f); });
    kernels.add(name + "_backward",
                [f](Lowering& lowering, const Node& node) { lower_activation_backward(lowering, node, f); });
  };
  add("relu", {dnnl::algorithm::eltwise_relu_use_dst_for_bwd});
  add("gelu", {dnnl::algorithm::eltwise_gelu_erf, DNNL_ARG_SRC});
  add("sigmoid", {dnnl::algorithm::eltwise_logistic_use_dst_for_bwd});
  add("tanh", {dnnl::algorithm::eltwise_tanh_use_dst_for_bwd});
  add("silu", {dnnl::algorithm::eltwise_swish, DNNL_ARG_SRC, 1.0F});
  add("gelu_tanh", {dnnl::algorithm::eltwise_gelu_tanh, DNNL_ARG_SRC});
  add("softplus", {dnnl::algorithm::eltwise_soft_relu, DNNL_ARG_SRC});
  add("hardswish", {dnnl::algorithm::eltwise_hardswish, DNNL_ARG_SRC});
  add("elu", {dnnl::algorithm::eltwise_elu, DNNL_ARG_SRC, 1.0F});
  add("leaky_relu", {dnnl::algorithm::eltwise_relu, DNNL_ARG_SRC, 0.01F});
  kernels.add("scale", lower_scale);
}

}  // namespace telar::cpu
