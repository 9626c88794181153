#include <algorithm>
#include <cmath>

#include "telar/device/cpu/kernels.h"
#include "telar/device/cpu/kernels/common/f32_memory.h"
#include "telar/device/cpu/primitives.h"

namespace telar::cpu {

namespace {

PoolingShape shape_of(const Attributes& attributes) {
  return {attributes.integers("kernel"), attributes.integers("stride"), attributes.integers("padding")};
}

constexpr auto kMax = dnnl::algorithm::pooling_max;
constexpr auto kAverage = dnnl::algorithm::pooling_avg_include_padding;

/// The windows of a max pooling over planes of height × width.
struct Windows {
  int64_t planes, height, width, rows, columns;  ///< of x; rows and columns of windows
  PoolingShape shape;

  /// Calls begin(window), then visit(window, element of x) for each of its elements, except the padding.
  template <typename Begin, typename Visit>
  void for_each(const Begin& begin, const Visit& visit) const {
    for (int64_t window = 0; window < planes * rows * columns; ++window) {
      const int64_t plane = window / (rows * columns);
      const int64_t top = window / columns % rows * shape.strides[0] - shape.padding[0];
      const int64_t left = window % columns * shape.strides[1] - shape.padding[1];
      begin(window);
      for (int64_t i = std::max<int64_t>(0, top); i < std::min(height, top + shape.kernel[0]); ++i)
        for (int64_t j = std::max<int64_t>(0, left); j < std::min(width, left + shape.kernel[1]); ++j)
          visit(window, (plane * height + i) * width + j);
    }
  }
};

/// Loops of our own for values that are not finite: oneDNN's kernels drop NaN, and make a number of −∞. As in
/// PyTorch, the last NaN of a window is its largest element.
void lower_max_pool_of_any(Lowering& lowering, const Node& node) {
  const Shape& x = lowering.shape(node.inputs[0]);
  const Shape& y = lowering.shape(node.outputs[0]);
  const Windows windows{x[0] * x[1], x[2], x[3], y[2], y[3], shape_of(node.attributes)};
  const RegionId from = f32_region(lowering, node.inputs[0]);
  const RegionId winners = lowering.temporary(plain(DType::i32, y));
  const F32Result result(lowering, node.outputs[0]);
  lowering.function({from}, {result.region, winners}, [=](const Pointers& p) {
    const auto* values = p.get<const float>(0);
    auto* largest = p.get<float>(1);
    auto* winner = p.get<int32_t>(2);
    windows.for_each([=](int64_t window) { winner[window] = -1; },
                     [=](int64_t window, int64_t element) {
                       const float value = values[element];
                       if (winner[window] >= 0 && !std::isnan(value) && !(value > largest[window])) return;
                       largest[window] = value;
                       winner[window] = static_cast<int32_t>(element);
                     });
  });
  result.finish(lowering);
  if (lowering.used(node.outputs[1])) lowering.attach(node.outputs[1], {winners});
}

void lower_max_pool_of_any_backward(Lowering& lowering, const Node& node) {
  const int64_t windows = lowering.shape(node.inputs[0]).elements();
  const int64_t elements = lowering.shape(node.outputs[0]).elements();
  const RegionId dy = f32_region(lowering, node.inputs[0]);
  const F32Result result(lowering, node.outputs[0]);
  lowering.function({dy, lowering.attached(node.inputs[1])[0]}, {result.region}, [=](const Pointers& p) {
    auto* dx = p.get<float>(2);
    std::fill_n(dx, elements, 0.0F);
    for (int64_t window = 0; window < windows; ++window)
      dx[p.get<const int32_t>(1)[window]] += p.get<const float>(0)[window];
  });
  result.finish(lowering);
}

void lower_max_pool(Lowering& lowering, const Node& node) {
  if (lowering.non_finite()) return lower_max_pool_of_any(lowering, node);
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
  if (lowering.non_finite()) return lower_max_pool_of_any_backward(lowering, node);
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
