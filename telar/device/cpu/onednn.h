#pragma once

// The only header through which the engine sees oneDNN; primitives.h wraps what differs between its major
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

/// Row-major, unpadded: how tensors look to the user.
Desc plain(DType dtype, const Shape& shape);
/// Of a bias: one f32 for each of `features`.
inline Desc bias_desc(int64_t features) { return plain(DType::f32, {features}); }
/// Any layout: the primitive chooses.
Desc any(DType dtype, const Shape& shape);
/// The same tensor with another element type in the same order of elements.
Desc with_type(const Desc& desc, DType dtype);
/// A tensor of another shape stored in the same manner (plain, channels last, blocked channels) as `desc`.
Desc like(const Desc& desc, DType dtype, const Shape& shape);
/// True when axis 0 is outermost and dense, so that some samples of a batch are a piece of its memory.
bool batch_is_outermost(const Desc& desc);
/// The same layout for another extent of axis 0, which must be outermost.
Desc for_batch(const Desc& desc, int64_t batch);
/// A layout of weights whose kernel has `taps` [KH, KW] (the last two axes), in which each tap is one piece
/// of memory, stored as `weights` stores the taps that it has.
Desc tap_by_tap(const Desc& weights, const Shape& taps);
/// A part of a tensor where it lies: its layout, and how many bytes of the tensor's memory lie before it.
struct Part {
  Desc desc;
  size_t shift;
};
/// The part of these extents that begins at `offsets`, which must not cut a block.
Part part_of(const Desc& desc, const dnnl::memory::dims& extents, const dnnl::memory::dims& offsets);
/// Whether the elements lie at the same places: == but for the strides of axes that have one element.
bool same_memory(const Desc& a, const Desc& b);
/// How a layout stores its elements: in blocks of `sizes` along the axes `inner`, the first the outermost,
/// and the blocks, `counts` of them along each axis, `strides` elements from one to the next.
struct Blocks {
  std::vector<int> inner;
  std::vector<int64_t> sizes;
  std::vector<int64_t> counts;
  std::vector<int64_t> strides;
  bool padded = false;  ///< the last block of some axis is not full
};
Blocks blocks_of(const Desc& desc);
/// Raw memory.
Desc bytes_desc(size_t bytes);
/// The layout in oneDNN's letters: axes by descending stride, capital where also blocked, then the inner
/// blocks: "abcd", "ABcd16b16a". With strides when they are not dense.
std::string format_name(const Desc& desc);
/// Bytes of padding or gaps: true when every byte of the memory is an element of the tensor.
bool is_dense(const Desc& desc);

}  // namespace telar::cpu
