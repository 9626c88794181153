#include "telar/device/cpu/kernels/kernel_table.h"
#include "telar/device/cpu/primitives.h"

namespace telar::cpu {

namespace {

ConvolutionShape shape_of(const Attributes& attributes) {
  return {attributes.integers("stride"), attributes.integers("dilation"), attributes.integers("padding")};
}

/// oneDNN keeps groups as a leading axis of the weights: [O, C/g, KH, KW] is [g, O/g, C/g, KH, KW].
Shape grouped(const Shape& w, int64_t groups) {
  if (groups == 1) return w;
  return {groups, w[0] / groups, w[1], w[2], w[3]};
}

Desc weights_any(DType dtype, const Shape& w, int64_t groups) { return any(dtype, grouped(w, groups)); }

Desc bias_desc(int64_t channels) { return plain(DType::f32, {channels}); }

struct Shapes {
  DType dtype;
  Shape x, w, y;
  int64_t groups;
};

dnnl::convolution_forward::primitive_desc forward_of(const Shapes& s, const ConvolutionShape& shape,
                                                     bool training, bool bias, bool relu) {
  return convolution_forward(training, any(s.dtype, s.x), weights_any(s.dtype, s.w, s.groups),
                             bias ? bias_desc(s.y[1]) : Desc(), any(s.dtype, s.y), shape, relu);
}

dnnl::convolution_backward_weights::primitive_desc backward_weights_of(const Shapes& s,
                                                                       const ConvolutionShape& shape,
                                                                       bool bias) {
  return convolution_backward_weights(any(s.dtype, s.x), weights_any(DType::f32, s.w, s.groups),
                                      bias ? bias_desc(s.y[1]) : Desc(), any(s.dtype, s.y), shape,
                                      forward_of(s, shape, true, bias, false));
}

}  // namespace

void lower_conv2d(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId w = node.inputs[1];
  const ValueId y = node.outputs[0];
  const bool bias = node.inputs[2] != kNoValue;
  const bool relu = node.attributes.text_or("activation", "") == "relu";
  const ConvolutionShape shape = shape_of(node.attributes);
  const Shapes s{lowering.type(x).dtype, lowering.shape(x), lowering.shape(w), lowering.shape(y),
                 node.attributes.integer("groups")};
  const auto pd = forward_of(s, shape, true, bias, relu);
  if (const auto source = lowering.converted_parameter(w)) {
    lowering.propose_layout(*source, backward_weights_of(s, shape, bias).diff_weights_desc());
  }
  Arguments arguments{{DNNL_ARG_SRC, lowering.slot(x, pd.src_desc())},
                      {DNNL_ARG_WEIGHTS, lowering.slot(w, pd.weights_desc())}};
  if (bias) arguments.emplace_back(DNNL_ARG_BIAS, lowering.slot(node.inputs[2], bias_desc(s.y[1])));
  arguments.emplace_back(DNNL_ARG_DST, lowering.define(y, pd.dst_desc()));
  lowering.primitive(pd, dnnl::convolution_forward(pd), std::move(arguments));
}

void lower_conv2d_backward_data(Lowering& lowering, const Node& node) {
  const ValueId dy = node.inputs[0];
  const ValueId w = node.inputs[1];
  const ValueId dx = node.outputs[0];
  const ConvolutionShape shape = shape_of(node.attributes);
  const Shapes s{lowering.type(dy).dtype, lowering.shape(dx), lowering.shape(w), lowering.shape(dy),
                 node.attributes.integer("groups")};
  const auto pd =
      convolution_backward_data(any(s.dtype, s.x), weights_any(s.dtype, s.w, s.groups), any(s.dtype, s.y),
                                shape, forward_of(s, shape, true, false, false));
  lowering.primitive(pd, dnnl::convolution_backward_data(pd),
                     {{DNNL_ARG_DIFF_DST, lowering.slot(dy, pd.diff_dst_desc())},
                      {DNNL_ARG_WEIGHTS, lowering.slot(w, pd.weights_desc())},
                      {DNNL_ARG_DIFF_SRC, lowering.define(dx, pd.diff_src_desc())}});
}

void lower_conv2d_backward_weights(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId dy = node.inputs[1];
  const ValueId dw = node.outputs[0];
  const bool bias = node.attributes.flag("bias");
  const ConvolutionShape shape = shape_of(node.attributes);
  const Shapes s{lowering.type(x).dtype, lowering.shape(x), lowering.shape(dw), lowering.shape(dy),
                 node.attributes.integer("groups")};
  const auto pd = backward_weights_of(s, shape, bias);
  Arguments arguments{{DNNL_ARG_SRC, lowering.slot(x, pd.src_desc())},
                      {DNNL_ARG_DIFF_DST, lowering.slot(dy, pd.diff_dst_desc())},
                      {DNNL_ARG_DIFF_WEIGHTS, lowering.define(dw, pd.diff_weights_desc())}};
  if (bias) arguments.emplace_back(DNNL_ARG_DIFF_BIAS, lowering.define(node.outputs[1], bias_desc(s.y[1])));
  lowering.primitive(pd, dnnl::convolution_backward_weights(pd), std::move(arguments));
}

}  // namespace telar::cpu
