#include "telar/device/cuda/kernels.h"

namespace telar::cuda {

namespace {

/// Whether both layouts of this shape store the elements in the same order.
bool lies_alike(const Shape& shape) { return shape.rank() != 4 || shape[1] == 1 || shape[2] * shape[3] == 1; }

/// Also for reshape_like, whose second input only provides its shape.
void lower_reshape(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId y = node.outputs[0];
  const RegionId from = lies_alike(lowering.shape(x)) ? lowering.region(x) : lowering.plain_region(x);
  const bool as_like = node.inputs.size() > 1 && lies_alike(lowering.shape(y));
  lowering.define_alias(y, from, as_like ? lowering.layout(node.inputs[1]) : Layout::plain);
}

}  // namespace

void register_reshape(Kernels& kernels) {
  kernels.add("reshape", lower_reshape);
  kernels.add("reshape_like", lower_reshape);
  kernels.add("stop_gradient", lower_reshape);
}

}  // namespace telar::cuda
