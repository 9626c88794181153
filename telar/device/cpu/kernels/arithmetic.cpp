#include "telar/device/cpu/kernels.h"
#include "telar/device/cpu/primitives.h"

namespace telar::cpu {

namespace {

/// The shape with leading ones, up to `rank` axes.
Shape padded(const Shape& shape, size_t rank) {
  std::vector<int64_t> dims(rank - shape.rank(), 1);
  dims.insert(dims.end(), shape.begin(), shape.end());
  return Shape(dims);
}

/// oneDNN broadcasts only its second operand. The operand with the output's shape goes first. If neither has
/// it, the first one is broadcast by adding it to zeros of the output's shape.
void lower_binary(Lowering& lowering, const Node& node, dnnl::algorithm algorithm) {
  const ValueId y = node.outputs[0];
  const Shape& shape = lowering.shape(y);
  const DType dtype = lowering.type(y).dtype;
  const bool relu = node.attributes.text_or("activation", "") == "relu";
  ValueId a = node.inputs[0];
  ValueId b = node.inputs[1];
  if (lowering.shape(a) != shape && lowering.shape(b) == shape) std::swap(a, b);

  if (lowering.shape(a) == shape && lowering.shape(b) == shape) {
    const Desc desc = lowering.layout(a);
    // oneDNN 2.6 computes wrong results for an addition followed by a ReLU when blocks are not full.
    const bool apart = relu && blocks_of(desc).padded;
    const auto pd = binary(algorithm, desc, desc, desc, relu && !apart);
    const RegionId first = lowering.region(a);
    const RegionId second = lowering.region(b, desc);
    lowering.define_in_place(y, a);
    lowering.primitive(
        pd, dnnl::binary(pd),
        {{DNNL_ARG_SRC_0, first}, {DNNL_ARG_SRC_1, second}, {DNNL_ARG_DST, lowering.region(y)}});
    if (!apart) return;
    const auto rectify = eltwise_forward(dnnl::algorithm::eltwise_relu, desc);
    lowering.primitive(rectify, dnnl::eltwise_forward(rectify),
                       {{DNNL_ARG_SRC, lowering.region(y)}, {DNNL_ARG_DST, lowering.region(y)}});
    return;
  }
  const Desc full = plain(dtype, shape);
  RegionId first = -1;
  if (lowering.shape(a) == shape) {
    first = lowering.plain_region(a);
  } else {
    const RegionId zeros = lowering.temporary(full);
    const size_t bytes = full.get_size();
    lowering.function({}, {zeros},
                      [bytes](const Pointers& p) { std::fill_n(p.get<char>(0), bytes, char{0}); });
    first = lowering.temporary(full);
    const Desc spread = plain(dtype, padded(lowering.shape(a), shape.rank()));
    const auto pd = binary(dnnl::algorithm::binary_add, full, spread, full, false);
    lowering.primitive(pd, dnnl::binary(pd),
                       {{DNNL_ARG_SRC_0, zeros},
                        {DNNL_ARG_SRC_1, lowering.view(lowering.plain_region(a), spread)},
                        {DNNL_ARG_DST, first}});
  }
  const Desc spread = plain(dtype, padded(lowering.shape(b), shape.rank()));
  const auto pd = binary(algorithm, full, spread, full, relu);
  const RegionId second = lowering.view(lowering.plain_region(b), spread);
  lowering.primitive(
      pd, dnnl::binary(pd),
      {{DNNL_ARG_SRC_0, first}, {DNNL_ARG_SRC_1, second}, {DNNL_ARG_DST, lowering.define(y, full)}});
}

void lower_add(Lowering& lowering, const Node& node) {
  lower_binary(lowering, node, dnnl::algorithm::binary_add);
}

void lower_mul(Lowering& lowering, const Node& node) {
  lower_binary(lowering, node, dnnl::algorithm::binary_mul);
}

void lower_sum_to(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId y = node.outputs[0];
  const DType dtype = lowering.type(x).dtype;
  const Shape target = padded(lowering.shape(y), lowering.shape(x).rank());
  const Desc to = plain(dtype, target);
  const RegionId result = lowering.define_plain(y);
  if (target == lowering.shape(x)) {
    lowering.reorder(lowering.region(x), lowering.view(result, to));
    return;
  }
  const auto pd = reduction(dnnl::algorithm::reduction_sum, plain(dtype, lowering.shape(x)), to);
  lowering.primitive(pd, dnnl::reduction(pd),
                     {{DNNL_ARG_SRC, lowering.plain_region(x)}, {DNNL_ARG_DST, lowering.view(result, to)}});
}

}  // namespace

void register_arithmetic(Kernels& kernels) {
  kernels.add("add", lower_add);
  kernels.add("mul", lower_mul);
  kernels.add("sum_to", lower_sum_to);
}

}  // namespace telar::cpu
