#include <algorithm>
#include <cmath>

#include "telar/device/cpu/kernels.h"
#include "telar/device/cpu/kernels/common/f32_memory.h"
#include "telar/device/cpu/sequence_primitives.h"

namespace telar::cpu {

namespace {

int softmax_axis(const Node& node) { return static_cast<int>(node.attributes.integer("axis")); }

/// A loop of our own for values that are not finite: oneDNN's kernels drop NaN.
void lower_softmax_of_any(Lowering& lowering, const Node& node) {
  const Shape& shape = lowering.shape(node.inputs[0]);
  const auto axis = static_cast<size_t>(node.attributes.integer("axis"));
  const int64_t length = shape[axis];
  int64_t step = 1;
  for (size_t i = axis + 1; i < shape.rank(); ++i) step *= shape[i];
  const int64_t rows = shape.elements() / length;
  const RegionId from = f32_region(lowering, node.inputs[0]);
  const F32Result result(lowering, node.outputs[0]);
  lowering.function({from}, {result.region}, [=](const Pointers& p) {
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t first = row / step * step * length + row % step;
      const auto* x = p.get<const float>(0) + first;
      auto* y = p.get<float>(1) + first;
      float largest = x[0];
      for (int64_t i = 1; i < length; ++i) largest = std::max(largest, x[i * step]);
      double sum = 0;
      for (int64_t i = 0; i < length; ++i) sum += y[i * step] = std::exp(x[i * step] - largest);
      for (int64_t i = 0; i < length; ++i) y[i * step] = static_cast<float>(y[i * step] / sum);
    }
  });
  result.finish(lowering);
}

void lower_softmax(Lowering& lowering, const Node& node) {
  if (lowering.non_finite()) return lower_softmax_of_any(lowering, node);
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
