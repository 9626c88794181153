#include "telar/device/cuda/loops/pooling.h"

#include "telar/device/cuda/check.h"
#include "telar/device/cuda/kernels.h"
#include "telar/device/cuda/kernels/common/convolution.h"

namespace telar::cuda {

namespace {

/// x: [N, C, H, W], y: [N, C, H', W'].
Pooling pooling_of(const Node& node, const Shape& x, const Shape& y, Layout layout) {
  const auto axis = [&](size_t i) {
    return PoolingAxis{x[2 + i], y[2 + i], node.attributes.integers("kernel")[i],
                       node.attributes.integers("stride")[i], node.attributes.integers("padding")[i]};
  };
  return {x[0], x[1], axis(0), axis(1), layout == Layout::channels_last};
}

/// The pooling of a forward operation.
Pooling pooling_of(const Lowering& lowering, const Node& node) {
  return pooling_of(node, lowering.shape(node.inputs[0]), lowering.shape(node.outputs[0]),
                    lowering.layout(node.inputs[0]));
}

void lower_max_pool(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const Pooling of = pooling_of(lowering, node);
  const RegionId from = lowering.region(x);
  const RegionId to = lowering.define(node.outputs[0], lowering.layout(x));
  std::vector<RegionId> writes{to};
  const bool training = lowering.used(node.outputs[1]);
  if (training) {
    writes.push_back(lowering.temporary(winner_bytes(of)));
    // The winners have y's layout. The backward operation uses y's region only to find this layout.
    lowering.attach(node.outputs[1], {writes.back(), to});
  }
  lowering.add({from}, writes,
               [of, training, dtype = lowering.dtype(x), stream = lowering.stream()](const Pointers& p) {
                 check(max_pool(p[0], dtype, of, p[1], training ? p[2] : nullptr, stream), "pooling");
               });
}

void lower_max_pool_backward(Lowering& lowering, const Node& node) {
  const ValueId dy = node.inputs[0];
  const ValueId dx = node.outputs[0];
  const std::vector<RegionId> attached = lowering.attached(node.inputs[1]);
  const Layout layout = lowering.layout_of(attached[1]);
  const Pooling of = pooling_of(node, lowering.shape(dx), lowering.shape(dy), layout);
  const std::vector<RegionId> reads{lowering.region(dy, layout), attached[0]};
  lowering.add(reads, {lowering.define(dx, layout)},
               [of, dtype = lowering.dtype(dy), stream = lowering.stream()](const Pointers& p) {
                 check(max_pool_backward(p[0], p[1], dtype, of, p[2], stream), "the gradient of pooling");
               });
}

void lower_average_pool(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const Pooling of = pooling_of(lowering, node);
  const RegionId from = lowering.region(x);
  lowering.add({from}, {lowering.define(node.outputs[0], lowering.layout(x))},
               [of, dtype = lowering.dtype(x), stream = lowering.stream()](const Pointers& p) {
                 check(average_pool(p[0], dtype, of, p[1], stream), "pooling");
               });
}

void lower_average_pool_backward(Lowering& lowering, const Node& node) {
  const ValueId dy = node.inputs[0];
  const ValueId dx = node.outputs[0];
  // With one window for all pixels, both layouts of dy are the same memory. dx is then most likely the
  // gradient of a convolution's result.
  const bool global = lowering.shape(dy)[2] * lowering.shape(dy)[3] == 1;
  const Layout layout = global ? convolution_layouts(lowering, lowering.dtype(dy))[0] : lowering.layout(dy);
  const Pooling of = pooling_of(node, lowering.shape(dx), lowering.shape(dy), layout);
  const RegionId from = lowering.region(dy);
  lowering.add({from}, {lowering.define(dx, layout)},
               [of, dtype = lowering.dtype(dy), stream = lowering.stream()](const Pointers& p) {
                 check(average_pool_backward(p[0], dtype, of, p[1], stream), "the gradient of pooling");
               });
}

}  // namespace

void register_pooling(Kernels& kernels) {
  kernels.add("average_pool", lower_average_pool);
  kernels.add("average_pool_backward", lower_average_pool_backward);
  kernels.add("max_pool", lower_max_pool);
  kernels.add("max_pool_backward", lower_max_pool_backward);
}

}  // namespace telar::cuda
