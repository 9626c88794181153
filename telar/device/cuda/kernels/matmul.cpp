#include "telar/device/cuda/kernels.h"
#include "telar/device/cuda/kernels/common/product_step.h"

namespace telar::cuda {

namespace {

void lower_matmul(Lowering& lowering, const Node& node) {
  const ValueId a = node.inputs[0];
  const ValueId b = node.inputs[1];
  const ValueId y = node.outputs[0];
  const MatrixProduct product =
      matrix_product(lowering.shape(a), node.attributes.flag("transpose_a"), lowering.shape(b),
                     node.attributes.flag("transpose_b"), lowering.shape(y));
  const RegionId left = lowering.plain_region(a);
  const RegionId right = lowering.plain_region(b);
  add_product(lowering, product, {.operands = lowering.dtype(a), .result = lowering.dtype(y)},
              {left, right, lowering.define_plain(y)});
}

}  // namespace

void register_matmul(Kernels& kernels) { kernels.add("matmul", lower_matmul); }

}  // namespace telar::cuda
