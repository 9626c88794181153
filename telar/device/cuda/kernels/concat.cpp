#include <algorithm>

#include "telar/device/cuda/check.h"
#include "telar/device/cuda/kernels.h"
#include "telar/device/cuda/kernels/common/walks.h"
#include "telar/device/cuda/loops/copies.h"

namespace telar::cuda {

namespace {

size_t axis_of(const Node& node) { return static_cast<size_t>(node.attributes.integer("axis")); }

/// Channels last if one of the values has this layout.
Layout common_layout(const Lowering& lowering, const std::vector<ValueId>& values) {
  Layout common = Layout::plain;
  for (const ValueId value : values)
    if (value != kNoValue) common = std::max(common, lowering.layout(value));
  return common;
}

/// A tensor and its parts along an axis. In memory, each part is a piece of each of the tensor's rows.
class Parts {
 public:
  Parts(const Shape& whole, size_t axis, Layout layout)
      : stride_(strides_of(whole, layout)[axis]), pitch_(whole[axis] * stride_) {
    rows_ = whole.elements() / pitch_;
  }
  /// Copies a part with this extent out of the whole, and into it.
  RowPieces out(int64_t extent) const { return {rows_, extent * stride_, pitch_, extent * stride_}; }
  RowPieces into(int64_t extent) const { return {rows_, extent * stride_, extent * stride_, pitch_}; }
  int64_t begin(int64_t index) const { return index * stride_; }

 private:
  int64_t stride_;
  int64_t pitch_;
  int64_t rows_ = 1;
};

/// Copies a part between its own memory and the whole. `from_begin` and `to_begin` are offsets in a row.
void add_copy(Lowering& lowering, RegionId from, RegionId to, const RowPieces& pieces, int64_t from_begin,
              int64_t to_begin, DType dtype) {
  lowering.add({from}, {to}, [=, stream = lowering.stream()](const Pointers& p) {
    check(copy_pieces(pieces, p[0], from_begin, p[1], to_begin, dtype, stream), "copying a part");
  });
}

/// Concatenates values along the axis into `whole`. An absent value leaves its part, of the size that
/// `extents` gives, unchanged.
void put_together(Lowering& lowering, const std::vector<ValueId>& values, const std::vector<int64_t>& extents,
                  RegionId whole, const Parts& parts, Layout layout, DType dtype) {
  int64_t begin = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] != kNoValue) {
      add_copy(lowering, lowering.region(values[i], layout), whole, parts.into(extents[i]), 0,
               parts.begin(begin), dtype);
    }
    begin += extents[i];
  }
}

void lower_concat(Lowering& lowering, const Node& node) {
  const ValueId y = node.outputs[0];
  const size_t axis = axis_of(node);
  const Layout layout = common_layout(lowering, node.inputs);
  std::vector<int64_t> extents;
  for (const ValueId part : node.inputs) extents.push_back(lowering.shape(part)[axis]);
  put_together(lowering, node.inputs, extents, lowering.define(y, layout),
               Parts(lowering.shape(y), axis, layout), layout, lowering.dtype(y));
}

/// Also for concat_backward, whose other inputs only provide their shapes.
void lower_split(Lowering& lowering, const Node& node) {
  const ValueId x = node.inputs[0];
  const size_t axis = axis_of(node);
  const Layout layout = lowering.layout(x);
  const RegionId whole = lowering.region(x);
  const Parts parts(lowering.shape(x), axis, layout);
  int64_t begin = 0;
  for (const ValueId part : node.outputs) {
    const int64_t extent = lowering.shape(part)[axis];
    if (lowering.used(part)) {
      add_copy(lowering, whole, lowering.define(part, layout), parts.out(extent), parts.begin(begin), 0,
               lowering.dtype(x));
    }
    begin += extent;
  }
}

void lower_split_backward(Lowering& lowering, const Node& node) {
  const ValueId dx = node.outputs[0];
  const size_t axis = axis_of(node);
  const std::vector<ValueId> gradients(node.inputs.begin() + 1, node.inputs.end());
  const Layout layout = common_layout(lowering, gradients);
  const RegionId whole = lowering.define(dx, layout);
  if (std::find(gradients.begin(), gradients.end(), kNoValue) != gradients.end()) {
    lowering.add({}, {whole},
                 [bytes = bytes_of(lowering.type(dx)), stream = lowering.stream()](const Pointers& p) {
                   check(cudaMemsetAsync(p[0], 0, bytes, stream), "setting a gradient to zero");
                 });
  }
  put_together(lowering, gradients, node.attributes.integers("sizes"), whole,
               Parts(lowering.shape(dx), axis, layout), layout, lowering.dtype(dx));
}

}  // namespace

void register_concat(Kernels& kernels) {
  kernels.add("concat", lower_concat);
  kernels.add("concat_backward", lower_split);
  kernels.add("split", lower_split);
  kernels.add("split_backward", lower_split_backward);
}

}  // namespace telar::cuda
