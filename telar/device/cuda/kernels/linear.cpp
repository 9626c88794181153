#include "telar/device/cuda/kernels.h"
#include "telar/device/cuda/kernels/common/product_step.h"
#include "telar/device/cuda/kernels/common/reorder.h"
#include "telar/device/cuda/loops/activation.h"
#include "telar/device/cuda/loops/channel_bias.h"

namespace telar::cuda {

namespace {

/// The bias in the product's type: cuBLASLt adds a bias only if it has the result's type.
RegionId bias_in(Lowering& lowering, ValueId bias, DType dtype) {
  const RegionId given = lowering.plain_region(bias);
  const TensorType& type = lowering.type(bias);
  if (type.dtype == dtype) return given;
  const RegionId converted = lowering.temporary(bytes_of({dtype, type.shape}));
  lowering.add({given}, {converted}, conversion(lowering.gpu(), type, dtype));
  return converted;
}

Epilogue epilogue_of(bool bias, bool relu) {
  if (bias) return relu ? Epilogue::bias_relu : Epilogue::bias;
  return relu ? Epilogue::relu : Epilogue::none;
}

/// The loop that computes the epilogue from the product, y: [rows, columns].
EpilogueLoop loop_of(const TensorType& y, bool bias, bool relu, cudaStream_t stream) {
  if (bias) {
    return [=, rows = y.shape[0], columns = y.shape[1], dtype = y.dtype](const ProductMemory& m) {
      constexpr int64_t kPixels = 1;
      return add_channel_bias(m.y, dtype, m.vector, dtype, relu, rows, columns, kPixels, true, stream);
    };
  }
  if (!relu) return {};
  return [=, count = y.shape.elements(), dtype = y.dtype](const ProductMemory& m) {
    return rectify(m.y, m.y, dtype, count, stream);
  };
}

void lower_linear(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId w = node.inputs[1];
  const ValueId b = node.inputs[2];
  const TensorType& y = lowering.type(node.outputs[0]);
  const bool bias = b != kNoValue;
  const bool relu = node.attributes.text_or("activation", "") == "relu";
  const RegionId inputs = lowering.plain_region(x);
  const RegionId weights = lowering.plain_region(w);
  const RegionId added = bias ? bias_in(lowering, b, y.dtype) : -1;
  add_product(lowering, matrix_product(lowering.shape(x), false, lowering.shape(w), true, y.shape),
              {.operands = y.dtype, .result = y.dtype, .epilogue = epilogue_of(bias, relu)},
              {inputs, weights, lowering.define_plain(node.outputs[0]), added},
              loop_of(y, bias, relu, lowering.stream()));
}

void lower_linear_backward_data(Lowering& lowering, const Node& node) {
  const ValueId dy = node.inputs[0];
  const ValueId w = node.inputs[1];
  const TensorType& dx = lowering.type(node.outputs[0]);
  const RegionId gradients = lowering.plain_region(dy);
  const RegionId weights = lowering.plain_region(w);
  add_product(lowering, matrix_product(lowering.shape(dy), false, lowering.shape(w), false, dx.shape),
              {.operands = dx.dtype, .result = dx.dtype},
              {gradients, weights, lowering.define_plain(node.outputs[0])});
}

void lower_linear_backward_weights(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId dy = node.inputs[1];
  const RegionId inputs = lowering.plain_region(x);
  const RegionId gradients = lowering.plain_region(dy);
  const RegionId dw = lowering.define_plain(node.outputs[0]);
  std::optional<RegionId> db;
  if (node.attributes.flag("bias")) db = lowering.define_plain(node.outputs[1]);
  add_weights_gradient(lowering,
                       {inputs, gradients, lowering.dtype(x), lowering.shape(x)[0], lowering.shape(x)[1],
                        lowering.shape(dy)[1]},
                       dw, db);
}

}  // namespace

void register_linear(Kernels& kernels) {
  kernels.add("linear", lower_linear);
  kernels.add("linear_backward_data", lower_linear_backward_data);
  kernels.add("linear_backward_weights", lower_linear_backward_weights);
}

}  // namespace telar::cuda
