#include "telar/device/cuda/kernels.h"

namespace telar::cuda {

namespace {

void lower_constant(Lowering& lowering, const Node& node) {
  lowering.define_constant(node.outputs[0], static_cast<float>(node.attributes.real("value")));
}

}  // namespace

void register_constant(Kernels& kernels) {
  kernels.add("constant", lower_constant);
  kernels.add("fill", lower_constant);
}

}  // namespace telar::cuda
