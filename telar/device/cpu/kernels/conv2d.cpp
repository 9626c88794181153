#include "telar/device/cpu/kernels.h"
#include "telar/device/cpu/kernels/common/kernel_taps.h"
#include "telar/device/cpu/kernels/common/winograd.h"
#include "telar/device/cpu/primitives.h"

namespace telar::cpu {

namespace {

/// oneDNN stores groups as a leading axis of the weights: [O, C/g, KH, KW] is [g, O/g, C/g, KH, KW].
Shape grouped(const Shape& w, int64_t groups, const Shape& taps) {
  if (groups == 1) return {w[0], w[1], taps[0], taps[1]};
  return {groups, w[0] / groups, w[1], taps[0], taps[1]};
}

/// The convolution of a node, with the kernel taps that touch the image.
struct Convolution {
  DType dtype;
  Shape x, y;
  Shape w;  ///< with groups, and these taps only
  KernelTaps taps;

  Convolution(const Lowering& lowering, const Node& node, ValueId x_value, ValueId w_value, ValueId y_value)
      : dtype(lowering.type(node.inputs[0]).dtype),
        x(lowering.shape(x_value)),
        y(lowering.shape(y_value)),
        taps(taps_of(node.attributes, lowering.shape(w_value))) {
    w = grouped(lowering.shape(w_value), node.attributes.integer("groups"), taps.count);
    taps.shape.winograd =
        node.attributes.flag_or("winograd", false) && winograd_pays({dtype, x, w, y}, taps.shape);
  }

  dnnl::convolution_forward::primitive_desc forward(bool bias, bool relu) const {
    return convolution_forward(true, any(dtype, x), any(dtype, w), bias ? bias_desc(y[1]) : Desc(),
                               any(dtype, y), taps.shape, relu);
  }
  dnnl::convolution_backward_data::primitive_desc backward_data() const {
    return convolution_backward_data(any(dtype, x), any(dtype, w), any(dtype, y), taps.shape,
                                     forward(false, false));
  }
  dnnl::convolution_backward_weights::primitive_desc backward_weights(bool bias) const {
    return convolution_backward_weights(any(dtype, x), any(DType::f32, w), bias ? bias_desc(y[1]) : Desc(),
                                        any(dtype, y), taps.shape, forward(bias, false));
  }
  /// The layout of the weights, with all taps, that their gradient uses.
  Desc weights_layout(bool bias) const {
    const Desc made = backward_weights(bias).diff_weights_desc();
    return taps.cropped() ? tap_by_tap(made, taps.all) : made;
  }

 private:
  KernelTaps taps_of(const Attributes& attributes, const Shape& weights) const {
    const auto padding = attributes.integers("padding");
    return taps_that_meet({x[2], x[3]}, {weights[2], weights[3]}, {y[2], y[3]},
                          {attributes.integers("stride"), attributes.integers("dilation"), padding, padding});
  }
};

/// The weights in the layout that the primitive needs.
RegionId weights_region(Lowering& lowering, ValueId w, const Convolution& convolution, const Desc& wanted) {
  if (!convolution.taps.cropped()) return lowering.region(w, wanted);
  const ValueId stored = lowering.converted_parameter(w).value_or(w);
  return cropped_weights(lowering, lowering.region(stored), convolution.taps, wanted);
}

void lower_conv2d(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId w = node.inputs[1];
  const ValueId y = node.outputs[0];
  const bool bias = node.inputs[2] != kNoValue;
  const Convolution convolution(lowering, node, x, w, y);
  const auto pd = convolution.forward(bias, node.attributes.text_or("activation", "") == "relu");
  const auto source = lowering.converted_parameter(w);
  if (source || convolution.taps.cropped()) {
    lowering.propose_layout(source.value_or(w), convolution.weights_layout(bias));
  }
  Arguments arguments{{DNNL_ARG_SRC, lowering.region(x, pd.src_desc())},
                      {DNNL_ARG_WEIGHTS, weights_region(lowering, w, convolution, pd.weights_desc())}};
  if (bias) {
    arguments.emplace_back(DNNL_ARG_BIAS, lowering.region(node.inputs[2], bias_desc(convolution.y[1])));
  }
  arguments.emplace_back(DNNL_ARG_DST, lowering.define(y, pd.dst_desc()));
  lowering.primitive(pd, dnnl::convolution_forward(pd), std::move(arguments));
}

void lower_conv2d_backward_data(Lowering& lowering, const Node& node) {
  const ValueId dy = node.inputs[0];
  const ValueId w = node.inputs[1];
  const ValueId dx = node.outputs[0];
  const Convolution convolution(lowering, node, dx, w, dy);
  const auto pd = convolution.backward_data();
  // A transposed convolution reads its weights here first.
  if (const auto source = lowering.converted_parameter(w))
    lowering.propose_layout(*source, convolution.weights_layout(false));
  lowering.primitive(pd, dnnl::convolution_backward_data(pd),
                     {{DNNL_ARG_DIFF_DST, lowering.region(dy, pd.diff_dst_desc())},
                      {DNNL_ARG_WEIGHTS, weights_region(lowering, w, convolution, pd.weights_desc())},
                      {DNNL_ARG_DIFF_SRC, lowering.define(dx, pd.diff_src_desc())}});
}

void lower_conv2d_backward_weights(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId dy = node.inputs[1];
  const ValueId dw = node.outputs[0];
  const bool bias = node.attributes.flag("bias");
  const Convolution convolution(lowering, node, x, dw, dy);
  const auto pd = convolution.backward_weights(bias);
  const Desc made = pd.diff_weights_desc();
  const RegionId x_region = lowering.region(x, pd.src_desc());
  const RegionId dy_region = lowering.region(dy, pd.diff_dst_desc());
  const RegionId whole = lowering.define(dw, convolution.weights_layout(bias));
  const bool cropped = convolution.taps.cropped();
  const RegionId dw_region = cropped ? cropped_gradients(lowering, whole, convolution.taps, made) : whole;
  Arguments arguments{
      {DNNL_ARG_SRC, x_region}, {DNNL_ARG_DIFF_DST, dy_region}, {DNNL_ARG_DIFF_WEIGHTS, dw_region}};
  if (bias) {
    arguments.emplace_back(DNNL_ARG_DIFF_BIAS, lowering.define(node.outputs[1], bias_desc(convolution.y[1])));
  }
  lowering.primitive(pd, dnnl::convolution_backward_weights(pd), std::move(arguments));
  if (cropped) spread_gradients(lowering, dw_region, whole, convolution.taps);
}

}  // namespace

void register_conv2d(Kernels& kernels) {
  kernels.add("conv2d", lower_conv2d);
  kernels.add("conv2d_backward_data", lower_conv2d_backward_data);
  kernels.add("conv2d_backward_weights", lower_conv2d_backward_weights);
}

}  // namespace telar::cpu
