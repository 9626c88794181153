#include "telar/device/cpu/kernels.h"
#include "telar/device/cpu/sequence_primitives.h"

namespace telar::cpu {

namespace {

struct Descs {
  Desc x, statistics, affine;
  float epsilon;
};

Descs descs_of(const Lowering& lowering, const Node& node, ValueId x, ValueId statistics) {
  const Shape& shape = lowering.shape(x);
  return {plain(lowering.type(x).dtype, shape), plain(DType::f32, lowering.shape(statistics)),
          plain(DType::f32, {shape[shape.rank() - 1]}), static_cast<float>(node.attributes.real("epsilon"))};
}

void lower_layer_norm(Lowering& lowering, const Node& node) {
  const Descs d = descs_of(lowering, node, node.inputs[0], node.outputs[1]);
  const auto pd = layer_normalization_forward(d.x, d.statistics, d.epsilon);
  lowering.primitive(pd, dnnl::layer_normalization_forward(pd),
                     {{DNNL_ARG_SRC, lowering.region(node.inputs[0], d.x)},
                      {DNNL_ARG_SCALE, lowering.region(node.inputs[1], d.affine)},
                      {DNNL_ARG_SHIFT, lowering.region(node.inputs[2], d.affine)},
                      {DNNL_ARG_DST, lowering.define(node.outputs[0], d.x)},
                      {DNNL_ARG_MEAN, lowering.define(node.outputs[1], d.statistics)},
                      {DNNL_ARG_VARIANCE, lowering.define(node.outputs[2], d.statistics)}});
}

void lower_layer_norm_backward(Lowering& lowering, const Node& node) {
  const Descs d = descs_of(lowering, node, node.inputs[0], node.inputs[3]);
  const auto pd = layer_normalization_backward(d.x, d.statistics, d.epsilon);
  const RegionId scale = lowering.region(node.inputs[2], d.affine);
  lowering.primitive(pd, dnnl::layer_normalization_backward(pd),
                     {{DNNL_ARG_SRC, lowering.region(node.inputs[0], d.x)},
                      {DNNL_ARG_DIFF_DST, lowering.region(node.inputs[1], d.x)},
                      {DNNL_ARG_SCALE, scale},
                      {DNNL_ARG_SHIFT, scale},  // oneDNN 2 requires a shift but does not read it
                      {DNNL_ARG_MEAN, lowering.region(node.inputs[3], d.statistics)},
                      {DNNL_ARG_VARIANCE, lowering.region(node.inputs[4], d.statistics)},
                      {DNNL_ARG_DIFF_SRC, lowering.define(node.outputs[0], d.x)},
                      {DNNL_ARG_DIFF_SCALE, lowering.define(node.outputs[1], d.affine)},
                      {DNNL_ARG_DIFF_SHIFT, lowering.define(node.outputs[2], d.affine)}});
}

}  // namespace

void register_layer_norm(Kernels& kernels) {
  kernels.add("layer_norm", lower_layer_norm);
  kernels.add("layer_norm_backward", lower_layer_norm_backward);
}

}  // namespace telar::cpu
