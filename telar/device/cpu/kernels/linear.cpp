#include "telar/device/cpu/kernels.h"
#include "telar/device/cpu/primitives.h"

namespace telar::cpu {

namespace {

struct Shapes {
  DType dtype;
  Shape x, w, y;
};

dnnl::inner_product_forward::primitive_desc forward_of(const Shapes& s, bool bias, bool relu) {
  return inner_product_forward(true, any(s.dtype, s.x), any(s.dtype, s.w), bias ? bias_desc(s.y[1]) : Desc(),
                               any(s.dtype, s.y), relu);
}

dnnl::inner_product_backward_weights::primitive_desc backward_weights_of(const Shapes& s, bool bias) {
  return inner_product_backward_weights(any(s.dtype, s.x), any(DType::f32, s.w),
                                        bias ? bias_desc(s.y[1]) : Desc(), any(s.dtype, s.y),
                                        forward_of(s, bias, false));
}

/// The number of equal parts into which a product's samples are divided; the parts run one after the other.
/// oneDNN divides a product by blocks of 64 samples, or by output features if there is only one block. With a
/// division by samples every core reads every weight. The update then waits for each cache line that another
/// core holds. With 128 samples of an MLP 784-256-256-10 on two cores, Adam took 3 times as long. So when
/// there are more weights than inputs, each part is one block. The product itself is not slower.
int64_t sample_parts(const Shapes& s, const Desc& x, const Desc& y) {
  constexpr int64_t kBlock = 64;
  const bool plain_rows = x == plain(s.dtype, s.x) && y == plain(s.dtype, s.y);
  const bool more_weights = s.w.elements() > s.x.elements();
  return plain_rows && more_weights && s.x[0] % kBlock == 0 ? s.x[0] / kBlock : 1;
}

RegionId block_of(Lowering& lowering, RegionId whole, const Desc& desc, int64_t index) {
  return lowering.view(whole, desc, static_cast<size_t>(index) * desc.get_size());
}

void lower_linear(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId w = node.inputs[1];
  const ValueId y = node.outputs[0];
  const bool bias = node.inputs[2] != kNoValue;
  const bool relu = node.attributes.text_or("activation", "") == "relu";
  const Shapes s{lowering.type(x).dtype, lowering.shape(x), lowering.shape(w), lowering.shape(y)};
  const auto whole = forward_of(s, bias, relu);
  if (const auto source = lowering.converted_parameter(w)) {
    lowering.propose_layout(*source, backward_weights_of(s, bias).diff_weights_desc());
  }
  const RegionId from = lowering.region(x, whole.src_desc());
  const RegionId weights = lowering.region(w, whole.weights_desc());
  const RegionId added = bias ? lowering.region(node.inputs[2], bias_desc(s.y[1])) : -1;
  const RegionId to = lowering.define(y, whole.dst_desc());
  const int64_t parts = sample_parts(s, whole.src_desc(), whole.dst_desc());
  const int64_t samples = s.x[0] / parts;
  const auto pd = parts == 1 ? whole
                             : inner_product_forward(true, plain(s.dtype, s.x.with_batch(samples)),
                                                     whole.weights_desc(), bias ? bias_desc(s.y[1]) : Desc(),
                                                     plain(s.dtype, s.y.with_batch(samples)), relu);
  for (int64_t i = 0; i < parts; ++i) {
    lowering.primitive(pd, dnnl::inner_product_forward(pd),
                       {{DNNL_ARG_SRC, block_of(lowering, from, pd.src_desc(), i)},
                        {DNNL_ARG_WEIGHTS, weights},
                        {DNNL_ARG_BIAS, added},
                        {DNNL_ARG_DST, block_of(lowering, to, pd.dst_desc(), i)}});
  }
}

void lower_linear_backward_data(Lowering& lowering, const Node& node) {
  const ValueId dy = node.inputs[0];
  const ValueId w = node.inputs[1];
  const ValueId dx = node.outputs[0];
  const Shapes s{lowering.type(dy).dtype, lowering.shape(dx), lowering.shape(w), lowering.shape(dy)};
  const auto pd = inner_product_backward_data(any(s.dtype, s.x), any(s.dtype, s.w), any(s.dtype, s.y),
                                              forward_of(s, false, false));
  lowering.primitive(pd, dnnl::inner_product_backward_data(pd),
                     {{DNNL_ARG_DIFF_DST, lowering.region(dy, pd.diff_dst_desc())},
                      {DNNL_ARG_WEIGHTS, lowering.region(w, pd.weights_desc())},
                      {DNNL_ARG_DIFF_SRC, lowering.define(dx, pd.diff_src_desc())}});
}

void lower_linear_backward_weights(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId dy = node.inputs[1];
  const ValueId dw = node.outputs[0];
  const bool bias = node.attributes.flag("bias");
  const Shapes s{lowering.type(x).dtype, lowering.shape(x), lowering.shape(dw), lowering.shape(dy)};
  const auto pd = backward_weights_of(s, bias);
  Arguments arguments{{DNNL_ARG_SRC, lowering.region(x, pd.src_desc())},
                      {DNNL_ARG_DIFF_DST, lowering.region(dy, pd.diff_dst_desc())},
                      {DNNL_ARG_DIFF_WEIGHTS, lowering.define(dw, pd.diff_weights_desc())}};
  if (bias) arguments.emplace_back(DNNL_ARG_DIFF_BIAS, lowering.define(node.outputs[1], bias_desc(s.y[1])));
  lowering.primitive(pd, dnnl::inner_product_backward_weights(pd), std::move(arguments));
}

}  // namespace

void register_linear(Kernels& kernels) {
  kernels.add("linear", lower_linear);
  kernels.add("linear_backward_data", lower_linear_backward_data);
  kernels.add("linear_backward_weights", lower_linear_backward_weights);
}

}  // namespace telar::cpu
