#include <algorithm>
#include <optional>

#include "telar/device/cpu/kernels.h"
#include "telar/device/cpu/sequence_primitives.h"

namespace telar::cpu {

namespace {

int axis_of(const Node& node) { return static_cast<int>(node.attributes.integer("axis")); }

/// The part of `whole` with this shape that begins at `begin` of `axis`; empty if it would divide a block of
/// the layout.
std::optional<Desc> piece_along(const Desc& whole, const Shape& part, size_t axis, int64_t begin) {
  dnnl::memory::dims offsets(part.rank(), 0);
  offsets[axis] = begin;
  const Desc desc = whole.submemory_desc(part.dims(), offsets, true);
  if (desc.is_zero()) return std::nullopt;
  return desc;
}

/// Copies consecutive parts of x along the axis to separate values.
void take_apart(Lowering& lowering, ValueId x, size_t axis, const std::vector<ValueId>& parts) {
  Desc whole = lowering.layout(x);
  const auto fits = [&] {
    int64_t begin = 0;
    for (const ValueId part : parts) {
      if (!piece_along(whole, lowering.shape(part), axis, begin)) return false;
      begin += lowering.shape(part)[axis];
    }
    return true;
  };
  if (!fits()) whole = plain(lowering.type(x).dtype, lowering.shape(x));
  const RegionId from = lowering.region(x, whole);
  int64_t begin = 0;
  for (const ValueId part : parts) {
    const Shape& shape = lowering.shape(part);
    const Desc desc = *piece_along(whole, shape, axis, begin);
    begin += shape[axis];
    const DType dtype = lowering.type(part).dtype;
    const Desc made = shape.rank() == 4 ? like(whole, dtype, shape) : plain(dtype, shape);
    lowering.reorder(lowering.view(from, desc), lowering.define(part, made));
  }
}

void lower_concat(Lowering& lowering, const Node& node) {
  std::vector<Desc> descs;
  Arguments arguments;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    descs.push_back(lowering.layout(node.inputs[i]));
    arguments.emplace_back(DNNL_ARG_MULTIPLE_SRC + static_cast<int>(i), lowering.region(node.inputs[i]));
  }
  const auto pd = concatenation(axis_of(node), descs);
  arguments.emplace_back(DNNL_ARG_DST, lowering.define(node.outputs[0], pd.dst_desc()));
  lowering.primitive(pd, dnnl::concat(pd), std::move(arguments));
}

void lower_split(Lowering& lowering, const Node& node) {
  take_apart(lowering, node.inputs[0], static_cast<size_t>(axis_of(node)), node.outputs);
}

void lower_split_backward(Lowering& lowering, const Node& node) {
  const auto axis = static_cast<size_t>(axis_of(node));
  const Desc whole = plain(lowering.type(node.outputs[0]).dtype, lowering.shape(node.outputs[0]));
  const RegionId dx = lowering.define(node.outputs[0], whole);
  if (std::find(node.inputs.begin(), node.inputs.end(), kNoValue) != node.inputs.end()) {
    const size_t bytes = whole.get_size();
    lowering.function({}, {dx}, [bytes](const Pointers& p) { std::fill_n(p.get<char>(0), bytes, char{0}); });
  }
  const auto& sizes = node.attributes.integers("sizes");
  int64_t begin = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const ValueId part = node.inputs[i + 1];
    if (part != kNoValue) {
      lowering.reorder(lowering.region(part),
                       lowering.view(dx, *piece_along(whole, lowering.shape(part), axis, begin)));
    }
    begin += sizes[i];
  }
}

}  // namespace

void register_concat(Kernels& kernels) {
  kernels.add("concat", lower_concat);
  kernels.add("concat_backward", lower_split);
  kernels.add("split", lower_split);
  kernels.add("split_backward", lower_split_backward);
}

}  // namespace telar::cpu
