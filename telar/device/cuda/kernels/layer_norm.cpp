#include "telar/device/cuda/loops/layer_norm.h"

#include "telar/device/cuda/check.h"
#include "telar/device/cuda/kernels.h"

namespace telar::cuda {

namespace {

LayerNorm norm_of(const Node& node, const Shape& x) {
  const int64_t features = x[x.rank() - 1];
  return {x.elements() / features, features, static_cast<float>(node.attributes.real("epsilon"))};
}

void lower_layer_norm(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId y = node.outputs[0];
  const std::vector<RegionId> reads{lowering.plain_region(x), lowering.plain_region(node.inputs[1]),
                                    lowering.plain_region(node.inputs[2])};
  const RegionId mean = lowering.define_plain(node.outputs[1]);
  const RegionId variance = lowering.define_plain(node.outputs[2]);
  lowering.add(reads, {lowering.define_plain(y), mean, variance},
               [norm = norm_of(node, lowering.shape(x)), dtype = lowering.dtype(x),
                stream = lowering.stream()](const Pointers& p) {
                 check(layer_norm(norm, p[0], p.get<const float>(1), p.get<const float>(2), p[3],
                                  p.get<float>(4), p.get<float>(5), dtype, stream),
                       "layer norm");
               });
}

void lower_layer_norm_backward(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId dy = node.inputs[1];
  const ValueId dx = node.outputs[0];
  const LayerNorm norm = norm_of(node, lowering.shape(x));
  const DType dtype = lowering.dtype(x);
  const cudaStream_t stream = lowering.stream();
  const RegionId values = lowering.plain_region(x);
  const RegionId gradient = lowering.plain_region(dy);
  const RegionId gamma = lowering.plain_region(node.inputs[2]);
  const RegionId mean = lowering.plain_region(node.inputs[3]);
  const RegionId variance = lowering.plain_region(node.inputs[4]);
  const Pieces pieces = pieces_of(norm.features, norm.rows, true);
  const RegionId between = lowering.temporary(2 * static_cast<size_t>(pieces.between()) * sizeof(float));
  const RegionId dgamma = lowering.define_plain(node.outputs[1]);
  const RegionId dbeta = lowering.define_plain(node.outputs[2]);
  // Computes the sums first, because the next step may overwrite dy.
  lowering.add({values, gradient, mean, variance}, {dgamma, dbeta, between}, [=](const Pointers& p) {
    check(layer_norm_sums(norm, pieces, p[0], p[1], p.get<const float>(2), p.get<const float>(3),
                          p.get<float>(4), p.get<float>(5), p.get<float>(6), dtype, stream),
          "layer norm's sums");
  });
  const RegionId to =
      lowering.layout(dy) == Layout::plain ? lowering.define_in_place(dx, dy) : lowering.define_plain(dx);
  lowering.add({values, gradient, gamma, mean, variance}, {to}, [=](const Pointers& p) {
    check(layer_norm_backward(norm, p[0], p[1], p.get<const float>(2), p.get<const float>(3),
                              p.get<const float>(4), p[5], dtype, stream),
          "layer norm's gradient");
  });
}

}  // namespace

void register_layer_norm(Kernels& kernels) {
  kernels.add("layer_norm", lower_layer_norm);
  kernels.add("layer_norm_backward", lower_layer_norm_backward);
}

}  // namespace telar::cuda
