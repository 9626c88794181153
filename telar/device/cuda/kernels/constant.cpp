#include "telar/device/cuda/kernels/kernel_table.h"

namespace telar::cuda {

void lower_constant(Lowering& lowering, const Node& node) {
  lowering.define_constant(node.outputs[0], static_cast<float>(node.attributes.real("value")));
}

}  // namespace telar::cuda
