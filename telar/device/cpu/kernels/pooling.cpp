#include "telar/device/cpu/kernels.h"
#include "telar/device/cpu/primitives.h"

namespace telar::cpu {

namespace {

PoolingShape shape_of(const Attributes& attributes) {
  return {attributes.integers("kernel"), attributes.integers("stride"), attributes.integers("padding")};
}

constexpr auto kMax = dnnl::algorithm::pooling_max;
constexpr auto kAverage = dnnl::algorithm::pooling_avg_include_padding;

void lower_max_pool(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId y = node.outputs[0];
  const bool training = lowering.used(node.outputs[1]);
  const auto pd = pooling_forward(training, kMax, lowering.layout(x),
                                  any(lowering.type(y).dtype, lowering.shape(y)), shape_of(node.attributes));
  Arguments arguments{{DNNL_ARG_SRC, lowering.region(x)}, {DNNL_ARG_DST, lowering.define(y, pd.dst_desc())}};
  if (training) {
    const RegionId winners = lowering.temporary(pd.workspace_desc());
    lowering.attach(node.outputs[1], {winners});
    arguments.emplace_back(DNNL_ARG_WORKSPACE, winners);
  }
  lowering.primitive(pd, dnnl::pooling_forward(pd), std::move(arguments));
}

void lower_average_pool(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId y = node.outputs[0];
  const auto pd = pooling_forward(true, kAverage, lowering.layout(x),
                                  any(lowering.type(y).dtype, lowering.shape(y)), shape_of(node.attributes));
  lowering.primitive(pd, dnnl::pooling_forward(pd),
                     {{DNNL_ARG_SRC, lowering.region(x)}, {DNNL_ARG_DST, lowering.define(y, pd.dst_desc())}});
}

void lower_max_pool_backward(Lowering& lowering, const Node& node) {
  const ValueId dy = node.inputs[0];
  const ValueId dx = node.outputs[0];
  const RegionId winners = lowering.attached(node.inputs[1])[0];
  // The workspace has the layout of the forward output; the gradient must have the same one.
  const Desc dy_desc = with_type(Desc(lowering.layout_of(winners)), lowering.type(dy).dtype);
  const PoolingShape shape = shape_of(node.attributes);
  const Desc dx_like = like(dy_desc, lowering.type(dx).dtype, lowering.shape(dx));
  const auto hint = pooling_forward(true, kMax, dx_like, dy_desc, shape);
  const auto pd = pooling_backward(kMax, dx_like, dy_desc, shape, hint);
  lowering.primitive(pd, dnnl::pooling_backward(pd),
                     {{DNNL_ARG_DIFF_DST, lowering.region(dy, dy_desc)},
                      {DNNL_ARG_WORKSPACE, winners},
                      {DNNL_ARG_DIFF_SRC, lowering.define(dx, pd.diff_src_desc())}});
}

void lower_average_pool_backward(Lowering& lowering, const Node& node) {
  const ValueId dy = node.inputs[0];
  const ValueId dx = node.outputs[0];
  const PoolingShape shape = shape_of(node.attributes);
  const Desc dy_desc = lowering.layout(dy);
  const Desc dx_like = like(dy_desc, lowering.type(dx).dtype, lowering.shape(dx));
  const auto hint = pooling_forward(true, kAverage, dx_like, dy_desc, shape);
  const auto pd = pooling_backward(kAverage, dx_like, dy_desc, shape, hint);
  lowering.primitive(pd, dnnl::pooling_backward(pd),
                     {{DNNL_ARG_DIFF_DST, lowering.region(dy)},
                      {DNNL_ARG_DIFF_SRC, lowering.define(dx, pd.diff_src_desc())}});
}

}  // namespace

void register_pooling(Kernels& kernels) {
  kernels.add("average_pool", lower_average_pool);
  kernels.add("average_pool_backward", lower_average_pool_backward);
  kernels.add("max_pool", lower_max_pool);
  kernels.add("max_pool_backward", lower_max_pool_backward);
}

}  // namespace telar::cpu
