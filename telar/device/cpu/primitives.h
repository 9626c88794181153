#pragma once

#include <vector>

#include "telar/device/cpu/onednn.h"

namespace telar::cpu {

/// Descriptors of the oneDNN primitives that kernels use. Everything that differs between oneDNN 2 and 3 is
/// in primitives.cpp and onednn.cpp. The caller provides the scratchpad of every primitive.

struct ConvolutionShape {
  dnnl::memory::dims strides, dilations;      ///< dilations in the usual convention: 1 is dense
  dnnl::memory::dims padding, padding_after;  ///< before the first row and column; after the last
  bool winograd = false;                      ///< true: Winograd's algorithm; false: direct
};

/// `bias` may be empty (Desc()). With `relu` the output is max(0, …).
dnnl::convolution_forward::primitive_desc convolution_forward(bool training, const Desc& x, const Desc& w,
                                                              const Desc& bias, const Desc& y,
                                                              const ConvolutionShape& shape, bool relu);
dnnl::convolution_backward_data::primitive_desc convolution_backward_data(
    const Desc& dx, const Desc& w, const Desc& dy, const ConvolutionShape& shape,
    const dnnl::convolution_forward::primitive_desc& hint);
dnnl::convolution_backward_weights::primitive_desc convolution_backward_weights(
    const Desc& x, const Desc& dw, const Desc& db, const Desc& dy, const ConvolutionShape& shape,
    const dnnl::convolution_forward::primitive_desc& hint);

dnnl::inner_product_forward::primitive_desc inner_product_forward(bool training, const Desc& x, const Desc& w,
                                                                  const Desc& bias, const Desc& y, bool relu);
dnnl::inner_product_backward_data::primitive_desc inner_product_backward_data(
    const Desc& dx, const Desc& w, const Desc& dy, const dnnl::inner_product_forward::primitive_desc& hint);
dnnl::inner_product_backward_weights::primitive_desc inner_product_backward_weights(
    const Desc& x, const Desc& dw, const Desc& db, const Desc& dy,
    const dnnl::inner_product_forward::primitive_desc& hint);

/// c = a · b (batched over leading axes).
dnnl::matmul::primitive_desc matrix_product(const Desc& a, const Desc& b, const Desc& c);

struct PoolingShape {
  dnnl::memory::dims kernel, strides, padding;
};
dnnl::pooling_forward::primitive_desc pooling_forward(bool training, dnnl::algorithm algorithm, const Desc& x,
                                                      const Desc& y, const PoolingShape& shape);
dnnl::pooling_backward::primitive_desc pooling_backward(dnnl::algorithm algorithm, const Desc& dx,
                                                        const Desc& dy, const PoolingShape& shape,
                                                        const dnnl::pooling_forward::primitive_desc& hint);

dnnl::eltwise_forward::primitive_desc eltwise_forward(dnnl::algorithm algorithm, const Desc& x,
                                                      float alpha = 0, float beta = 0);
dnnl::eltwise_backward::primitive_desc eltwise_backward(dnnl::algorithm algorithm, const Desc& dy,
                                                        const Desc& data, float alpha = 0);

dnnl::batch_normalization_forward::primitive_desc batch_normalization_forward(bool training, const Desc& x,
                                                                              float epsilon, bool relu);
dnnl::batch_normalization_backward::primitive_desc batch_normalization_backward(
    const Desc& dy, const Desc& x, float epsilon, bool relu,
    const dnnl::batch_normalization_forward::primitive_desc& hint);

/// y = a ⊕ b; axes of b (or none) may be 1. With `relu` the output is max(0, …).
dnnl::binary::primitive_desc binary(dnnl::algorithm algorithm, const Desc& a, const Desc& b, const Desc& y,
                                    bool relu);
dnnl::reduction::primitive_desc reduction(dnnl::algorithm algorithm, const Desc& x, const Desc& y);

}  // namespace telar::cpu
