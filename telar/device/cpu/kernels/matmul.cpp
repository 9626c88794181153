#include "telar/device/cpu/kernels.h"
#include "telar/device/cpu/primitives.h"

namespace telar::cpu {

namespace {

/// The operand as the product reads it: a transposed one is the same memory with rows and columns exchanged.
Desc operand(DType dtype, const Shape& shape, bool transposed) {
  if (!transposed) return plain(dtype, shape);
  const size_t row = shape.rank() - 2;
  const size_t column = shape.rank() - 1;
  dnnl::memory::dims dims = shape.dims();
  std::swap(dims[row], dims[column]);
  dnnl::memory::dims strides(shape.rank());
  int64_t stride = shape[row] * shape[column];
  for (size_t i = row; i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i];
  }
  strides[row] = 1;
  strides[column] = shape[column];
  return {dims, data_type(dtype), strides};
}

void lower_matmul(Lowering& lowering, const Node& node) {
  const ValueId a = node.inputs[0];
  const ValueId b = node.inputs[1];
  const ValueId y = node.outputs[0];
  const DType dtype = lowering.type(y).dtype;
  const Desc left = operand(dtype, lowering.shape(a), node.attributes.flag("transpose_a"));
  const Desc right = operand(dtype, lowering.shape(b), node.attributes.flag("transpose_b"));
  const Desc result = plain(dtype, lowering.shape(y));
  const auto pd = matrix_product(left, right, result);
  lowering.primitive(pd, dnnl::matmul(pd),
                     {{DNNL_ARG_SRC, lowering.view(lowering.plain_region(a), left)},
                      {DNNL_ARG_WEIGHTS, lowering.view(lowering.plain_region(b), right)},
                      {DNNL_ARG_DST, lowering.define(y, result)}});
}

}  // namespace

void register_matmul(Kernels& kernels) { kernels.add("matmul", lower_matmul); }

}  // namespace telar::cpu
