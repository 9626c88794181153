#include "telar/device/cpu/primitives.h"

namespace telar::cpu {

namespace {

dnnl::primitive_attr attributes(bool relu = false) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (relu) {
    dnnl::post_ops ops;
    ops.append_eltwise(1.0F, dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
    attr.set_post_ops(ops);
  }
  return attr;
}

dnnl::prop_kind forward_kind(bool training) {
  return training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
}

dnnl::memory::dims onednn_dilations(
    const ConvolutionShape& shape) {  // oneDNN's dilation counts gaps: 0 is dense
  dnnl::memory::dims gaps = shape.dilations;
  for (auto& gap : gaps) gap -= 1;
  return gaps;
}

dnnl::algorithm algorithm_of(const ConvolutionShape& shape) {
  return shape.winograd ? dnnl::algorithm::convolution_winograd : dnnl::algorithm::convolution_direct;
}

dnnl::normalization_flags batch_norm_flags(bool training, bool relu) {
  auto flags = dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;
  if (!training) flags = flags | dnnl::normalization_flags::use_global_stats;
  if (relu) flags = flags | dnnl::normalization_flags::fuse_norm_relu;
  return flags;
}

}  // namespace

dnnl::convolution_forward::primitive_desc convolution_forward(bool training, const Desc& x, const Desc& w,
                                                              const Desc& bias, const Desc& y,
                                                              const ConvolutionShape& shape, bool relu) {
  const auto gaps = onednn_dilations(shape);
  const auto desc =
      bias.is_zero()
          ? dnnl::convolution_forward::desc(forward_kind(training), algorithm_of(shape), x, w, y,
                                            shape.strides, gaps, shape.padding, shape.padding_after)
          : dnnl::convolution_forward::desc(forward_kind(training), algorithm_of(shape), x, w, bias, y,
                                            shape.strides, gaps, shape.padding, shape.padding_after);
  return {desc, attributes(relu), engine()};
}

dnnl::convolution_backward_data::primitive_desc convolution_backward_data(
    const Desc& dx, const Desc& w, const Desc& dy, const ConvolutionShape& shape,
    const dnnl::convolution_forward::primitive_desc& hint) {
  const dnnl::convolution_backward_data::desc desc(algorithm_of(shape), dx, w, dy, shape.strides,
                                                   onednn_dilations(shape), shape.padding,
                                                   shape.padding_after);
  return {desc, attributes(), engine(), hint};
}

dnnl::convolution_backward_weights::primitive_desc convolution_backward_weights(
    const Desc& x, const Desc& dw, const Desc& db, const Desc& dy, const ConvolutionShape& shape,
    const dnnl::convolution_forward::primitive_desc& hint) {
  const auto gaps = onednn_dilations(shape);
  const auto desc =
      db.is_zero()
          ? dnnl::convolution_backward_weights::desc(algorithm_of(shape), x, dw, dy, shape.strides, gaps,
                                                     shape.padding, shape.padding_after)
          : dnnl::convolution_backward_weights::desc(algorithm_of(shape), x, dw, db, dy, shape.strides, gaps,
                                                     shape.padding, shape.padding_after);
  return {desc, attributes(), engine(), hint};
}

dnnl::inner_product_forward::primitive_desc inner_product_forward(bool training, const Desc& x, const Desc& w,
                                                                  const Desc& bias, const Desc& y,
                                                                  bool relu) {
  const auto kind = forward_kind(training);
  const auto desc = bias.is_zero() ? dnnl::inner_product_forward::desc(kind, x, w, y)
                                   : dnnl::inner_product_forward::desc(kind, x, w, bias, y);
  return {desc, attributes(relu), engine()};
}

dnnl::inner_product_backward_data::primitive_desc inner_product_backward_data(
    const Desc& dx, const Desc& w, const Desc& dy, const dnnl::inner_product_forward::primitive_desc& hint) {
  return {dnnl::inner_product_backward_data::desc(dx, w, dy), attributes(), engine(), hint};
}

dnnl::inner_product_backward_weights::primitive_desc inner_product_backward_weights(
    const Desc& x, const Desc& dw, const Desc& db, const Desc& dy,
    const dnnl::inner_product_forward::primitive_desc& hint) {
  const auto desc = db.is_zero() ? dnnl::inner_product_backward_weights::desc(x, dw, dy)
                                 : dnnl::inner_product_backward_weights::desc(x, dw, db, dy);
  return {desc, attributes(), engine(), hint};
}

dnnl::matmul::primitive_desc matrix_product(const Desc& a, const Desc& b, const Desc& c) {
  return {dnnl::matmul::desc(a, b, c), attributes(), engine()};
}

dnnl::pooling_forward::primitive_desc pooling_forward(bool training, dnnl::algorithm algorithm, const Desc& x,
                                                      const Desc& y, const PoolingShape& shape) {
  const dnnl::pooling_forward::desc desc(forward_kind(training), algorithm, x, y, shape.strides, shape.kernel,
                                         shape.padding, shape.padding);
  return {desc, attributes(), engine()};
}

dnnl::pooling_backward::primitive_desc pooling_backward(dnnl::algorithm algorithm, const Desc& dx,
                                                        const Desc& dy, const PoolingShape& shape,
                                                        const dnnl::pooling_forward::primitive_desc& hint) {
  const dnnl::pooling_backward::desc desc(algorithm, dx, dy, shape.strides, shape.kernel, shape.padding,
                                          shape.padding);
  return {desc, attributes(), engine(), hint};
}

dnnl::eltwise_forward::primitive_desc eltwise_forward(dnnl::algorithm algorithm, const Desc& x, float alpha,
                                                      float beta) {
  return {dnnl::eltwise_forward::desc(dnnl::prop_kind::forward_training, algorithm, x, alpha, beta),
          attributes(), engine()};
}

dnnl::eltwise_backward::primitive_desc eltwise_backward(dnnl::algorithm algorithm, const Desc& dy,
                                                        const Desc& data, float alpha) {
  const auto hint = eltwise_forward(algorithm, data, alpha);
  return {dnnl::eltwise_backward::desc(algorithm, dy, data, alpha, 0.0F), attributes(), engine(), hint};
}

dnnl::batch_normalization_forward::primitive_desc batch_normalization_forward(bool training, const Desc& x,
                                                                              float epsilon, bool relu) {
  const dnnl::batch_normalization_forward::desc desc(forward_kind(training), x, epsilon,
                                                     batch_norm_flags(training, relu));
  return {desc, attributes(), engine()};
}

dnnl::batch_normalization_backward::primitive_desc batch_normalization_backward(
    const Desc& dy, const Desc& x, float epsilon, bool relu,
    const dnnl::batch_normalization_forward::primitive_desc& hint) {
  const dnnl::batch_normalization_backward::desc desc(dnnl::prop_kind::backward, dy, x, epsilon,
                                                      batch_norm_flags(true, relu));
  return {desc, attributes(), engine(), hint};
}

dnnl::binary::primitive_desc binary(dnnl::algorithm algorithm, const Desc& a, const Desc& b, const Desc& y,
                                    bool relu) {
  return {dnnl::binary::desc(algorithm, a, b, y), attributes(relu), engine()};
}

dnnl::reduction::primitive_desc reduction(dnnl::algorithm algorithm, const Desc& x, const Desc& y) {
  return {dnnl::reduction::desc(algorithm, x, y, 0.0F, 0.0F), attributes(), engine()};
}

}  // namespace telar::cpu
