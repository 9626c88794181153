#include "telar/device/cpu/onednn.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "telar/core/error.h"

namespace telar::cpu {

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

dnnl::memory::data_type data_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return dnnl::memory::data_type::f32;
    case DType::bf16: return dnnl::memory::data_type::bf16;
    case DType::i32: return dnnl::memory::data_type::s32;
    case DType::opaque: break;
  }
  throw run_error("an opaque value has no element type");
}

Desc plain(DType dtype, const Shape& shape) {
  dnnl::memory::dims strides(shape.rank());
  int64_t stride = 1;
  for (size_t i = shape.rank(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return {shape.dims(), data_type(dtype), strides};
}

Desc plain_like(const Desc& desc, const Shape& shape) {
  Desc rows = plain(DType::f32, shape);
  rows.data.data_type = desc.data.data_type;
  return rows;
}

Desc any(DType dtype, const Shape& shape) { return {shape.dims(), data_type(dtype), Tag::any}; }

Desc with_type(const Desc& desc, DType dtype) {
  Desc changed = desc;
  changed.data.data_type = static_cast<dnnl_data_type_t>(data_type(dtype));
  return changed;
}

Desc like(const Desc& desc, DType dtype, const Shape& shape) {
  for (const Tag tag : {Tag::abcd, Tag::acdb, Tag::aBcd16b, Tag::aBcd8b, Tag::aBcd4b}) {
    if (desc == Desc(desc.dims(), desc.data_type(), tag)) return {shape.dims(), data_type(dtype), tag};
  }
  return plain(dtype, shape);
}

bool batch_is_outermost(const Desc& desc) {
  const auto& blocking = desc.data.format_desc.blocking;
  const auto* blocked_end = blocking.inner_idxs + blocking.inner_nblks;
  const auto item = static_cast<size_t>(blocking.strides[0]) * dnnl::memory::data_type_size(desc.data_type());
  return std::find(blocking.inner_idxs, blocked_end, 0) == blocked_end &&
         desc.get_size() == static_cast<size_t>(desc.data.dims[0]) * item;
}

Desc for_batch(const Desc& desc, int64_t batch) {
  Desc changed = desc;
  changed.data.dims[0] = batch;
  changed.data.padded_dims[0] = batch;
  return changed;
}

Desc tap_by_tap(const Desc& weights, const Shape& taps) {
  Desc changed = weights;
  auto& data = changed.data;
  auto& strides = data.format_desc.blocking.strides;
  const int first = data.ndims - 2;
  const int64_t had = data.dims[first] * data.dims[first + 1];
  const int64_t tap_stride = std::min(strides[first], strides[first + 1]);
  int64_t piece = 1;  // elements of a tap, including the padding of blocks
  for (int axis = 0; axis < first; ++axis) {
    piece *= data.padded_dims[axis];
    if (strides[axis] > tap_stride) strides[axis] /= had;  // the stride spanned all taps
  }
  for (int axis = first; axis < data.ndims; ++axis) {
    data.dims[axis] = data.padded_dims[axis] = taps[static_cast<size_t>(axis - first)];
  }
  strides[first + 1] = piece;
  strides[first] = piece * taps[1];
  return changed;
}

Part part_of(const Desc& desc, const dnnl::memory::dims& extents, const dnnl::memory::dims& offsets) {
  Part part{desc.submemory_desc(extents, offsets), 0};
  part.shift = static_cast<size_t>(part.desc.data.offset0) * dnnl::memory::data_type_size(desc.data_type());
  part.desc.data.offset0 = 0;
  return part;
}

Part part_along(const Desc& desc, int axis, int64_t begin, int64_t end) {
  const Blocks blocks = blocks_of(desc);
  const auto a = static_cast<size_t>(axis);
  const int64_t block = desc.data.padded_dims[axis] / blocks.counts[a];
  Part part{desc, static_cast<size_t>(begin / block * blocks.strides[a]) *
                      dnnl::memory::data_type_size(desc.data_type())};
  auto& data = part.desc.data;
  const int64_t all = data.padded_dims[axis];
  data.dims[axis] = end - begin;
  data.padded_dims[axis] = (end - begin + block - 1) / block * block;
  for (auto other = size_t{0}; other < blocks.counts.size(); ++other) {
    auto& stride = data.format_desc.blocking.strides[other];  // that of a single block spans all of the axis
    if (stride > blocks.strides[a]) stride = stride / all * data.padded_dims[axis];
  }
  return part;
}

bool same_memory(const Desc& a, const Desc& b) {
  if (a.dims() != b.dims()) return false;
  Desc as_b = a;
  for (int axis = 0; axis < a.data.ndims; ++axis) {
    if (a.data.padded_dims[axis] != 1) continue;
    as_b.data.format_desc.blocking.strides[axis] = b.data.format_desc.blocking.strides[axis];
  }
  return as_b == b;
}

Blocks blocks_of(const Desc& desc) {
  const auto& data = desc.data;
  const auto& blocking = data.format_desc.blocking;
  Blocks blocks;
  blocks.inner.assign(blocking.inner_idxs, blocking.inner_idxs + blocking.inner_nblks);
  blocks.sizes.assign(blocking.inner_blks, blocking.inner_blks + blocking.inner_nblks);
  blocks.counts.assign(data.padded_dims, data.padded_dims + data.ndims);
  blocks.strides.assign(blocking.strides, blocking.strides + data.ndims);
  blocks.padded = !std::equal(data.dims, data.dims + data.ndims, data.padded_dims);
  for (size_t i = 0; i < blocks.inner.size(); ++i)
    blocks.counts[static_cast<size_t>(blocks.inner[i])] /= blocks.sizes[i];
  return blocks;
}

Desc bytes_desc(size_t bytes) { return {{static_cast<int64_t>(bytes)}, dnnl::memory::data_type::u8, Tag::a}; }

std::string format_name(const Desc& desc) {
  const auto& blocking = desc.data.format_desc.blocking;
  std::vector<int> axes(static_cast<size_t>(desc.data.ndims));
  std::iota(axes.begin(), axes.end(), 0);
  std::stable_sort(axes.begin(), axes.end(),
                   [&](int a, int b) { return blocking.strides[a] > blocking.strides[b]; });
  std::string name;
  for (const int axis : axes) {
    const bool blocked = std::find(blocking.inner_idxs, blocking.inner_idxs + blocking.inner_nblks, axis) !=
                         blocking.inner_idxs + blocking.inner_nblks;
    name += static_cast<char>((blocked ? 'A' : 'a') + axis);
  }
  for (int i = 0; i < blocking.inner_nblks; ++i) {
    name += fmt::format("{}{}", blocking.inner_blks[i], static_cast<char>('a' + blocking.inner_idxs[i]));
  }
  if (!is_dense(desc)) {
    name += ":" + fmt::format("{}", desc.get_size());
  }
  return name;
}

bool is_dense(const Desc& desc) {
  const auto dims = desc.dims();
  const int64_t elements = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
  return desc.get_size() == static_cast<size_t>(elements) * dnnl::memory::data_type_size(desc.data_type());
}

}  // namespace telar::cpu
