#include "telar/device/cpu/kernels.h"
#include "telar/device/cpu/sequence_primitives.h"

namespace telar::cpu {

namespace {

int softmax_axis(const Node& node) { return static_cast<int>(node.attributes.integer("axis")); }

void lower_softmax(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const Desc desc = plain(lowering.type(x).dtype, lowering.shape(x));
  const auto pd = softmax_forward(desc, softmax_axis(node));
  lowering.primitive(
      pd, dnnl::softmax_forward(pd),
      {{DNNL_ARG_SRC, lowering.region(x, desc)}, {DNNL_ARG_DST, lowering.define(node.outputs[0], desc)}});
}

void lower_softmax_backward(Lowering& lowering, const Node& node) {
  const ValueId y = node.inputs[1];
  const Desc desc = plain(lowering.type(y).dtype, lowering.shape(y));
  const auto pd = softmax_backward(desc, softmax_axis(node));
  lowering.primitive(pd, dnnl::softmax_backward(pd),
                     {{DNNL_ARG_DIFF_DST, lowering.region(node.inputs[0], desc)},
                      {DNNL_ARG_DST, lowering.region(y, desc)},
                      {DNNL_ARG_DIFF_SRC, lowering.define(node.outputs[0], desc)}});
}

}  // namespace

void register_softmax(Kernels& kernels) {
  kernels.add("softmax", lower_softmax);
  kernels.add("softmax_backward", lower_softmax_backward);
}

}  // namespace telar::cpu
