#include "telar/device/cpu/kernels/kernel_table.h"
#include "telar/device/cpu/primitives.h"

namespace telar::cpu {

namespace {

struct Shapes {
  DType dtype;
  Shape x, w, y;
};

Desc bias_desc(int64_t features) { return plain(DType::f32, {features}); }

dnnl::inner_product_forward::primitive_desc forward_of(const Shapes& s, bool bias, bool relu) {
  return inner_product_forward(true, any(s.dtype, s.x), any(s.dtype, s.w), bias ? bias_desc(s.y[1]) : Desc(),
                               any(s.dtype, s.y), relu);
}

dnnl::inner_product_backward_weights::primitive_desc backward_weights_of(const Shapes& s, bool bias) {
  return inner_product_backward_weights(any(s.dtype, s.x), any(DType::f32, s.w),
                                        bias ? bias_desc(s.y[1]) : Desc(), any(s.dtype, s.y),
                                        forward_of(s, bias, false));
}

}  // namespace

void lower_linear(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId w = node.inputs[1];
  const ValueId y = node.outputs[0];
  const bool bias = node.inputs[2] != kNoValue;
  const bool relu = node.attributes.text_or("activation", "") == "relu";
  const Shapes s{lowering.type(x).dtype, lowering.shape(x), lowering.shape(w), lowering.shape(y)};
  const auto pd = forward_of(s, bias, relu);
  if (const auto source = lowering.converted_parameter(w)) {
    lowering.propose_layout(*source, backward_weights_of(s, bias).diff_weights_desc());
  }
  Arguments arguments{{DNNL_ARG_SRC, lowering.slot(x, pd.src_desc())},
                      {DNNL_ARG_WEIGHTS, lowering.slot(w, pd.weights_desc())}};
  if (bias) arguments.emplace_back(DNNL_ARG_BIAS, lowering.slot(node.inputs[2], bias_desc(s.y[1])));
  arguments.emplace_back(DNNL_ARG_DST, lowering.define(y, pd.dst_desc()));
  lowering.primitive(pd, dnnl::inner_product_forward(pd), std::move(arguments));
}

void lower_linear_backward_data(Lowering& lowering, const Node& node) {
  const ValueId dy = node.inputs[0];
  const ValueId w = node.inputs[1];
  const ValueId dx = node.outputs[0];
  const Shapes s{lowering.type(dy).dtype, lowering.shape(dx), lowering.shape(w), lowering.shape(dy)};
  const auto pd = inner_product_backward_data(any(s.dtype, s.x), any(s.dtype, s.w), any(s.dtype, s.y),
                                              forward_of(s, false, false));
  lowering.primitive(pd, dnnl::inner_product_backward_data(pd),
                     {{DNNL_ARG_DIFF_DST, lowering.slot(dy, pd.diff_dst_desc())},
                      {DNNL_ARG_WEIGHTS, lowering.slot(w, pd.weights_desc())},
                      {DNNL_ARG_DIFF_SRC, lowering.define(dx, pd.diff_src_desc())}});
}

void lower_linear_backward_weights(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId dy = node.inputs[1];
  const ValueId dw = node.outputs[0];
  const bool bias = node.attributes.flag("bias");
  const Shapes s{lowering.type(x).dtype, lowering.shape(x), lowering.shape(dw), lowering.shape(dy)};
  const auto pd = backward_weights_of(s, bias);
  Arguments arguments{{DNNL_ARG_SRC, lowering.slot(x, pd.src_desc())},
                      {DNNL_ARG_DIFF_DST, lowering.slot(dy, pd.diff_dst_desc())},
                      {DNNL_ARG_DIFF_WEIGHTS, lowering.define(dw, pd.diff_weights_desc())}};
  if (bias) arguments.emplace_back(DNNL_ARG_DIFF_BIAS, lowering.define(node.outputs[1], bias_desc(s.y[1])));
  lowering.primitive(pd, dnnl::inner_product_backward_weights(pd), std::move(arguments));
}

}  // namespace telar::cpu
