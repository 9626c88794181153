#include <functional>
#include <limits>
#include <numeric>

#include "telar/device/cpu/kernels.h"
#include "telar/device/cpu/kernels/common/limits.h"
#include "telar/device/cpu/kernels/common/rectify.h"
#include "telar/device/cpu/primitives.h"

namespace telar::cpu {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// An activation where oneDNN's kernels are wrong, because they clip their arguments: its limits and those of
/// its derivative for x → ∞ and x → −∞. Of a NaN it is NaN.
struct Limits {
  float above;
  float below;
  float slope_above = 0;
  float slope_below = 0;
};

/// How oneDNN computes an activation. Its derivative is computed of the input or, by the variants with
/// "use_dst" in their name, of the output.
struct Eltwise {
  dnnl::algorithm algorithm;
  Limits limits;
  int slope_of = DNNL_ARG_DST;  ///< DNNL_ARG_SRC: of the input
  float alpha = 0;
};

void lower_activation(Lowering& lowering, const Node& node, const Eltwise& f) {
  const ValueId x = node.inputs[0];
  const ValueId y = node.outputs[0];
  const Desc desc = lowering.layout(x);
  const auto pd = eltwise_forward(f.algorithm, desc, f.alpha);
  const RegionId from = lowering.region(x);
  if (lowering.non_finite()) {
    lowering.define(y, desc);
  } else {
    lowering.define_in_place(y, x);
  }
  const RegionId to = lowering.region(y);
  lowering.primitive(pd, dnnl::eltwise_forward(pd), {{DNNL_ARG_SRC, from}, {DNNL_ARG_DST, to}});
  if (lowering.non_finite()) correct_limits(lowering, desc, {from, from, to}, f.limits.above, f.limits.below);
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
  if (lowering.non_finite()) {
    lowering.define(node.outputs[0], desc);
  } else {
    lowering.define_in_place(node.outputs[0], dy, desc);
  }
  const RegionId to = lowering.region(node.outputs[0]);
  lowering.primitive(pd, dnnl::eltwise_backward(pd),
                     {{f.slope_of, lowering.view(lowering.region(data), seen)},
                      {DNNL_ARG_DIFF_DST, lowering.view(from, seen)},
                      {DNNL_ARG_DIFF_SRC, lowering.view(to, seen)}});
  if (lowering.non_finite())
    correct_limits(lowering, desc, {lowering.region(data), from, to}, f.limits.slope_above,
                   f.limits.slope_below, true);
}

/// A loop of our own: oneDNN's makes 0 of NaN.
void lower_relu(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const DType dtype = lowering.type(x).dtype;
  const auto bytes = static_cast<int64_t>(lowering.layout(x).get_size());
  const RegionId from = lowering.region(x);
  lowering.define_in_place(node.outputs[0], x);
  lowering.function({from}, {lowering.region(node.outputs[0])},
                    [=](const Pointers& p) { rectify(dtype, bytes, p.get<const void>(0), p.get<void>(1)); });
}

void lower_relu_backward(Lowering& lowering, const Node& node) {
  const ValueId dy = node.inputs[0];
  const ValueId y = node.inputs[1];
  const Desc desc = lowering.layout(y);
  const DType dtype = lowering.type(y).dtype;
  const auto bytes = static_cast<int64_t>(desc.get_size());
  const RegionId from = lowering.region(dy, desc);
  lowering.define_in_place(node.outputs[0], dy, desc);
  lowering.function({from, lowering.region(y)}, {lowering.region(node.outputs[0])}, [=](const Pointers& p) {
    rectify_gradient(dtype, bytes, p.get<const void>(0), p.get<const void>(1), p.get<void>(2));
  });
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
  kernels.add("relu", lower_relu);
  kernels.add("relu_backward", lower_relu_backward);
  using A = dnnl::algorithm;
  const Limits like_relu{kInfinity, 0, 1, 0};
  add("gelu", {A::eltwise_gelu_erf, like_relu, DNNL_ARG_SRC});
  add("sigmoid", {A::eltwise_logistic_use_dst_for_bwd, {1, 0}});
  add("tanh", {A::eltwise_tanh_use_dst_for_bwd, {1, -1}});
  add("silu", {A::eltwise_swish, like_relu, DNNL_ARG_SRC, 1.0F});
  add("gelu_tanh", {A::eltwise_gelu_tanh, like_relu, DNNL_ARG_SRC});
  add("softplus", {A::eltwise_soft_relu, like_relu, DNNL_ARG_SRC});
  add("hardswish", {A::eltwise_hardswish, like_relu, DNNL_ARG_SRC});
  add("elu", {A::eltwise_elu, {kInfinity, -1, 1, 0}, DNNL_ARG_SRC, 1.0F});
  add("leaky_relu", {A::eltwise_relu, {kInfinity, -kInfinity, 1, 0.01F}, DNNL_ARG_SRC, 0.01F});
  kernels.add("scale", lower_scale);
}

}  // namespace telar::cpu
