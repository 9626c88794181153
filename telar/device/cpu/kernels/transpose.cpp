#include "telar/device/cpu/kernels.h"

namespace telar::cpu {

namespace {

void lower_transpose(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId y = node.outputs[0];
  const Shape& shape = lowering.shape(x);
  std::vector<int64_t> steps(shape.rank(), 1);  // stride of each axis
  for (size_t i = shape.rank(); i-- > 1;) steps[i - 1] = steps[i] * shape[i];
  dnnl::memory::dims strides;
  for (const int64_t axis : node.attributes.integers("permutation")) {
    strides.push_back(steps[static_cast<size_t>(axis)]);
  }
  const Desc permuted(lowering.shape(y).dims(), data_type(lowering.type(x).dtype), strides);
  lowering.reorder(lowering.view(lowering.plain_region(x), permuted), lowering.define_plain(y));
}

}  // namespace

void register_transpose(Kernels& kernels) { kernels.add("transpose", lower_transpose); }

}  // namespace telar::cpu
