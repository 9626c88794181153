#include "telar/device/cuda/loops/reduce.h"

#include "telar/device/cuda/check.h"
#include "telar/device/cuda/kernels.h"
#include "telar/device/cuda/kernels/common/walks.h"
#include "telar/device/cuda/loops/arithmetic.h"
#include "telar/device/cuda/loops/values.h"

namespace telar::cuda {

namespace {

/// The shape of the result, in which reduced axes have extent 1.
Shape kept_shape(const Shape& x, const Attributes& attributes) {
  Shape kept = x;
  for (const int64_t axis : attributes.integers("axes")) kept[static_cast<size_t>(axis)] = 1;
  return kept;
}

ReducedAxes reduced_axes(const Shape& x, Layout layout, const Shape& kept) {
  const auto strides = strides_of(x, layout);
  ReducedAxes axes;
  for (size_t axis = 0; axis < x.rank(); ++axis)
    if (kept[axis] == x[axis]) append_axis(axes.kept, x[axis], {strides[axis]});
  for (const size_t axis : axes_as_they_lie(x.rank(), layout))
    if (kept[axis] != x[axis]) append_axis(axes.reduced, x[axis], {strides[axis]});
  const bool beside = axes.kept.axes > 0 && axes.kept.strides[0][axes.kept.axes - 1] == 1;
  axes.pieces = pieces_of(axes.kept.elements(), axes.reduced.elements(), beside);
  return axes;
}

/// The walk over results in x's storage order, one result for each element of x.
LongWalk<1> walk_of_results(const Shape& x, Layout layout, const Shape& kept) {
  const auto strides = broadcast_strides(kept, Layout::plain, x.rank());
  LongWalk<1> walk;
  for (const size_t axis : axes_as_they_lie(x.rank(), layout)) append_axis(walk, x[axis], {strides[axis]});
  return walk;
}

RegionId memory_between(Lowering& lowering, const Pieces& pieces) {
  return lowering.temporary(static_cast<size_t>(pieces.between()) * sizeof(float));
}

/// `kept` is y's shape with as many axes as x.
void lower_reduction(Lowering& lowering, Reduction reduction, ValueId x, ValueId y, const Shape& kept) {
  const Shape& shape = lowering.shape(x);
  if (kept == shape) {  // every reduced axis has one element
    lowering.define_alias(y, lowering.plain_region(x), Layout::plain);
    return;
  }
  const RegionId from = lowering.region(x);
  const ReducedAxes axes = reduced_axes(shape, lowering.layout(x), kept);
  lowering.add({from}, {lowering.define_plain(y), memory_between(lowering, axes.pieces)},
               [=, dtype = lowering.dtype(x), stream = lowering.stream()](const Pointers& p) {
                 check(reduce_values(reduction, p[0], p[1], dtype, axes, p.get<float>(2), stream),
                       "reducing axes");
               });
}

void lower_reduction(Lowering& lowering, const Node& node, Reduction reduction) {
  const ValueId x = node.inputs[0];
  lower_reduction(lowering, reduction, x, node.outputs[0], kept_shape(lowering.shape(x), node.attributes));
}

/// The sum of a whole tensor, in any layout.
void lower_sum_of_all(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const RegionId from = lowering.region(x);
  const RegionId pieces = lowering.temporary(kMostPieces * sizeof(float));
  lowering.add({from}, {lowering.define_plain(node.outputs[0]), pieces},
               [count = lowering.shape(x).elements(), dtype = lowering.dtype(x),
                stream = lowering.stream()](const Pointers& p) {
                 check(sum_values(p[0], dtype, count, p.get<float>(2), p[1], stream), "summing values");
               });
}

/// The gradient has x's layout; the memory of x is not read.
void lower_spread(Lowering& lowering, const Node& node, float factor) {
  const ValueId x = node.inputs[1];
  const Shape& shape = lowering.shape(x);
  const Layout layout = lowering.layout(x);
  const auto walk = walk_of_results(shape, layout, kept_shape(shape, node.attributes));
  const RegionId dy = lowering.plain_region(node.inputs[0]);
  lowering.add({dy}, {lowering.define(node.outputs[0], layout)},
               [=, dtype = lowering.dtype(x), stream = lowering.stream()](const Pointers& p) {
                 check(spread(p[0], factor, p[1], dtype, walk, stream), "a reduction's gradient");
               });
}

void lower_sum_to(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId y = node.outputs[0];
  lower_reduction(lowering, Reduction::sum, x, y, padded(lowering.shape(y), lowering.shape(x).rank()));
}

void lower_reduce_sum(Lowering& lowering, const Node& node) {
  if (lowering.shape(node.outputs[0]).elements() == 1 && lowering.shape(node.inputs[0]).elements() > 1)
    return lower_sum_of_all(lowering, node);
  lower_reduction(lowering, node, Reduction::sum);
}

void lower_reduce_mean(Lowering& lowering, const Node& node) {
  lower_reduction(lowering, node, Reduction::mean);
}

void lower_reduce_max(Lowering& lowering, const Node& node) {
  lower_reduction(lowering, node, Reduction::max);
}

void lower_reduce_sum_backward(Lowering& lowering, const Node& node) { lower_spread(lowering, node, 1.0F); }

void lower_reduce_mean_backward(Lowering& lowering, const Node& node) {
  const auto whole = static_cast<float>(lowering.shape(node.inputs[1]).elements());
  lower_spread(lowering, node, static_cast<float>(lowering.shape(node.inputs[0]).elements()) / whole);
}

/// Elements that equal the maximum share its gradient equally.
void lower_reduce_max_backward(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[1];
  const Shape& shape = lowering.shape(x);
  const RegionId dy = lowering.plain_region(node.inputs[0]);
  const RegionId values = lowering.region(x);
  const RegionId y = lowering.plain_region(node.inputs[2]);
  const Layout layout = lowering.layout(x);
  const Shape kept = kept_shape(shape, node.attributes);
  const ReducedAxes axes = reduced_axes(shape, layout, kept);
  const RegionId ties = lowering.temporary(static_cast<size_t>(kept.elements()) * sizeof(float));
  const DType dtype = lowering.dtype(x);
  const cudaStream_t stream = lowering.stream();
  lowering.add({values, y}, {ties, memory_between(lowering, axes.pieces)}, [=](const Pointers& p) {
    check(count_ties(p[0], p[1], p.get<float>(2), dtype, axes, p.get<float>(3), stream),
          "counting the elements that equal a maximum");
  });
  const auto walk = walk_of_results(shape, layout, kept);
  lowering.add({dy, values, y, ties}, {lowering.define(node.outputs[0], layout)}, [=](const Pointers& p) {
    check(spread_to_ties(p[0], p[1], p[2], p.get<const float>(3), p[4], dtype, walk, stream),
          "a maximum's gradient");
  });
}

}  // namespace

void register_reduce(Kernels& kernels) {
  kernels.add("reduce_max", lower_reduce_max);
  kernels.add("reduce_max_backward", lower_reduce_max_backward);
  kernels.add("reduce_mean", lower_reduce_mean);
  kernels.add("reduce_mean_backward", lower_reduce_mean_backward);
  kernels.add("reduce_sum", lower_reduce_sum);
  kernels.add("reduce_sum_backward", lower_reduce_sum_backward);
  kernels.add("sum_to", lower_sum_to);
}

}  // namespace telar::cuda
