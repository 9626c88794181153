#pragma once

// The engine includes oneDNN only through this header. primitives.h hides the differences between major
// versions.
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <vector>

#include "telar/core/dtype.h"
#include "telar/core/shape.h"

namespace telar::cpu {

using Desc = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;

const dnnl::engine& engine();

dnnl::memory::data_type data_type(DType dtype);

/// Row-major, without padding: the layout that users see.
Desc plain(DType dtype, const Shape& shape);
/// The same, of the element type of `desc`.
Desc plain_like(const Desc& desc, const Shape& shape);
/// The bias of `features` outputs, f32.
inline Desc bias_desc(int64_t features) { return plain(DType::f32, {features}); }
/// Lets the primitive choose the layout.
Desc any(DType dtype, const Shape& shape);
/// The same tensor with another element type, in the same order of elements.
Desc with_type(const Desc& desc, DType dtype);
/// A tensor of another shape in the same kind of layout as `desc` (plain, channels last, blocked channels).
Desc like(const Desc& desc, DType dtype, const Shape& shape);
/// Whether axis 0 is outermost and dense, so that consecutive samples of a batch are contiguous in memory.
bool batch_is_outermost(const Desc& desc);
/// The same layout for another extent of axis 0, which must be outermost.
Desc for_batch(const Desc& desc, int64_t batch);
/// A layout of weights with a kernel of `taps` [KH, KW] (the last two axes). Each tap is contiguous and
/// stored like the taps in `weights`.
Desc tap_by_tap(const Desc& weights, const Shape& taps);
/// A part of a tensor in place: its layout, and its byte offset in the tensor's memory.
struct Part {
  Desc desc;
  size_t shift;
};
/// The part with these extents that begins at `offsets`, which must not divide a block.
Part part_of(const Desc& desc, const dnnl::memory::dims& extents, const dnnl::memory::dims& offsets);
/// The part [begin, end) along an axis that is outermost in memory, but for axes with a single block. `begin`
/// is a multiple of the axis' block.
Part part_along(const Desc& desc, int axis, int64_t begin, int64_t end);
/// Whether the elements have the same addresses: like ==, but ignores strides of axes with one element.
bool same_memory(const Desc& a, const Desc& b);
/// How a layout stores its elements: in blocks of `sizes` along the axes `inner`, the outermost first. There
/// are `counts` blocks along each axis, `strides` elements apart.
struct Blocks {
  std::vector<int> inner;
  std::vector<int64_t> sizes;
  std::vector<int64_t> counts;
  std::vector<int64_t> strides;
  bool padded = false;  ///< the last block of some axis is not full
};
Blocks blocks_of(const Desc& desc);
/// A descriptor of raw memory.
Desc bytes_desc(size_t bytes);
/// The layout in oneDNN's letters: axes by descending stride, in capitals if also blocked, then the inner
/// blocks: "abcd", "ABcd16b16a". With strides if they are not dense.
std::string format_name(const Desc& desc);
/// Bytes of padding or gaps: true when every byte of the memory is an element of the tensor.
bool is_dense(const Desc& desc);

}  // namespace telar::cpu
