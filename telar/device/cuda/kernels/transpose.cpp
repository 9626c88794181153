#include <optional>

#include "telar/device/cuda/check.h"
#include "telar/device/cuda/kernels.h"
#include "telar/device/cuda/kernels/common/walks.h"
#include "telar/device/cuda/loops/copies.h"

namespace telar::cuda {

namespace {

/// The walk over x in y's storage order. `strides`: of x, by y's axes.
LongWalk<1> walk_of(const Shape& y, Layout layout, const std::vector<int64_t>& strides) {
  LongWalk<1> walk;
  for (const size_t axis : axes_as_they_lie(y.rank(), layout)) append_axis(walk, y[axis], {strides[axis]});
  return walk;
}

bool is_as_it_lies(const LongWalk<1>& walk) {
  return walk.axes == 0 || (walk.axes == 1 && walk.strides[0][0] == 1);
}

/// A layout of y in which it has x's storage order, if there is one.
std::optional<Layout> layout_without_moving(const Shape& y, const std::vector<int64_t>& strides) {
  if (is_as_it_lies(walk_of(y, Layout::plain, strides))) return Layout::plain;
  if (y.rank() == 4 && is_as_it_lies(walk_of(y, Layout::channels_last, strides)))
    return Layout::channels_last;
  return std::nullopt;
}

void lower_transpose(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const ValueId y = node.outputs[0];
  const RegionId from = lowering.region(x);
  const auto lying = strides_of(lowering.shape(x), lowering.layout(x));
  std::vector<int64_t> strides;
  for (const int64_t axis : node.attributes.integers("permutation"))
    strides.push_back(lying[static_cast<size_t>(axis)]);
  if (const auto layout = layout_without_moving(lowering.shape(y), strides)) {
    lowering.define_alias(y, from, *layout);
    return;
  }
  const auto walk = walk_of(lowering.shape(y), Layout::plain, strides);
  lowering.add({from}, {lowering.define_plain(y)},
               [=, dtype = lowering.dtype(x), stream = lowering.stream()](const Pointers& p) {
                 check(copy_walked(p[0], p[1], dtype, walk, stream), "a transposition");
               });
}

}  // namespace

void register_transpose(Kernels& kernels) { kernels.add("transpose", lower_transpose); }

}  // namespace telar::cuda
