#include "telar/device/cpu/kernels.h"
#include "telar/device/cpu/kernels/common/broadcast.h"
#include "telar/device/cpu/kernels/common/f32_memory.h"
#include "telar/device/cpu/parallel.h"
#include "telar/device/cpu/primitives.h"

namespace telar::cpu {

namespace {

constexpr int64_t kElementsAThread = 16384;

/// The shape with leading ones, up to `rank` axes.
Shape padded(const Shape& shape, size_t rank) {
  std::vector<int64_t> dims(rank - shape.rank(), 1);
  dims.insert(dims.end(), shape.begin(), shape.end());
  return Shape(dims);
}

/// A loop of our own: most broadcasts are slow in oneDNN, up to 100 ns an element, and it broadcasts only its
/// second operand.
void lower_broadcast(Lowering& lowering, const Node& node, Elementwise operation) {
  const Shape& shape = lowering.shape(node.outputs[0]);
  const Shape a = padded(lowering.shape(node.inputs[0]), shape.rank());
  const Shape b = padded(lowering.shape(node.inputs[1]), shape.rank());
  const auto axes = walk_of<3>(shape, {shape, a, b});
  const int64_t count = shape.elements();
  const std::vector<RegionId> operands{f32_region(lowering, node.inputs[0]),
                                       f32_region(lowering, node.inputs[1])};
  const F32Result result(lowering, node.outputs[0]);
  lowering.function(operands, {result.region}, [=](const Pointers& p) {
    const auto* first = p.get<const float>(0);
    const auto* second = p.get<const float>(1);
    auto* y = p.get<float>(2);
    parallel_for(count, kElementsAThread, [&](int64_t begin, int64_t end) {
      run_broadcast(operation, axes, first, second, y, begin, end);
    });
  });
  result.finish(lowering);
}

void lower_alike(Lowering& lowering, const Node& node, dnnl::algorithm algorithm, bool relu) {
  const ValueId y = node.outputs[0];
  const ValueId a = node.inputs[0];
  const Desc desc = lowering.layout(a);
  // oneDNN 2.6 computes wrong results for an addition followed by a ReLU when blocks are not full.
  const bool apart = relu && blocks_of(desc).padded;
  const auto pd = binary(algorithm, desc, desc, desc, relu && !apart);
  const RegionId first = lowering.region(a);
  const RegionId second = lowering.region(node.inputs[1], desc);
  lowering.define_in_place(y, a);
  lowering.primitive(pd, dnnl::binary(pd),
                     {{DNNL_ARG_SRC_0, first}, {DNNL_ARG_SRC_1, second}, {DNNL_ARG_DST, lowering.region(y)}});
  if (!apart) return;
  const auto rectify = eltwise_forward(dnnl::algorithm::eltwise_relu, desc);
  lowering.primitive(rectify, dnnl::eltwise_forward(rectify),
                     {{DNNL_ARG_SRC, lowering.region(y)}, {DNNL_ARG_DST, lowering.region(y)}});
}

bool alike(const Lowering& lowering, const Node& node) {
  return lowering.shape(node.inputs[0]) == lowering.shape(node.inputs[1]);
}

void lower_add(Lowering& lowering, const Node& node) {
  const bool relu = node.attributes.text_or("activation", "") == "relu";
  if (alike(lowering, node)) return lower_alike(lowering, node, dnnl::algorithm::binary_add, relu);
  lower_broadcast(lowering, node, relu ? Elementwise::add_then_relu : Elementwise::add);
}

void lower_mul(Lowering& lowering, const Node& node) {
  if (alike(lowering, node)) return lower_alike(lowering, node, dnnl::algorithm::binary_mul, false);
  lower_broadcast(lowering, node, Elementwise::mul);
}

}  // namespace

void register_arithmetic(Kernels& kernels) {
  kernels.add("add", lower_add);
  kernels.add("mul", lower_mul);
}

}  // namespace telar::cpu
