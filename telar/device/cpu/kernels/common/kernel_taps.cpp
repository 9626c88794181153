#include "telar/device/cpu/kernels/common/kernel_taps.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>

#include "telar/device/cpu/parallel.h"

namespace telar::cpu {

namespace {

constexpr int64_t kZeroBytesAThread = 65536;  // bytes of zeros for each thread

struct Axis {
  int64_t image, kernel, output;
  int64_t stride, dilation, padding;

  bool meets(int64_t tap) const {
    for (int64_t o = 0; o < output; ++o) {
      const int64_t at = o * stride - padding + tap * dilation;
      if (at >= 0 && at < image) return true;
    }
    return false;
  }
};

struct Range {
  int64_t first, count, padding_before, padding_after;
};

/// Empty when no smaller kernel with non-negative paddings gives the same outputs.
std::optional<Range> range_of(const Axis& axis) {
  int64_t first = 0;
  int64_t last = axis.kernel - 1;
  while (first < last && !axis.meets(first)) ++first;
  while (last > first && !axis.meets(last)) --last;
  const int64_t count = last - first + 1;
  const int64_t before = axis.padding - first * axis.dilation;
  const int64_t reach = (axis.output - 1) * axis.stride + (count - 1) * axis.dilation + 1;
  const int64_t after = reach - axis.image - before;
  if (before < 0 || after < 0) return std::nullopt;
  return Range{first, count, before, after};
}

Part part_of_taps(const Desc& whole, const KernelTaps& taps) {
  dnnl::memory::dims extents = whole.dims();
  dnnl::memory::dims offsets(extents.size(), 0);
  for (size_t axis = 0; axis < 2; ++axis) {
    extents[extents.size() - 2 + axis] = taps.count[axis];
    offsets[offsets.size() - 2 + axis] = taps.first[axis];
  }
  return part_of(whole, extents, offsets);
}

void fill_zeros(std::byte* begin, size_t bytes) {
  parallel_for(static_cast<int64_t>(bytes), kZeroBytesAThread, [=](int64_t from, int64_t to) {
    std::memset(begin + from, 0, static_cast<size_t>(to - from));
  });
}

}  // namespace

KernelTaps taps_that_meet(const Shape& image, const Shape& kernel, const Shape& output,
                          const ConvolutionShape& shape) {
  KernelTaps all{kernel, {0, 0}, kernel, shape};
  KernelTaps taps = all;
  for (size_t axis = 0; axis < 2; ++axis) {
    const auto range = range_of({image[axis], kernel[axis], output[axis], shape.strides[axis],
                                 shape.dilations[axis], shape.padding[axis]});
    if (!range) return all;
    taps.first[axis] = range->first;
    taps.count[axis] = range->count;
    taps.shape.padding[axis] = range->padding_before;
    taps.shape.padding_after[axis] = range->padding_after;
  }
  return taps.cropped() ? taps : all;
}

RegionId cropped_weights(Lowering& lowering, RegionId whole, const KernelTaps& taps, const Desc& wanted) {
  const Part part = part_of_taps(lowering.layout_of(whole), taps);
  if (same_memory(part.desc, wanted)) return lowering.view(whole, wanted, part.shift);
  const RegionId copy = lowering.temporary(wanted);
  lowering.reorder(lowering.view(whole, part.desc, part.shift), copy);
  return copy;
}

RegionId cropped_gradients(Lowering& lowering, RegionId whole, const KernelTaps& taps, const Desc& made) {
  const Desc desc = lowering.layout_of(whole);
  const Part part = part_of_taps(desc, taps);
  if (!same_memory(part.desc, made)) return lowering.temporary(made);
  const size_t end = part.shift + made.get_size();
  lowering.function({}, {whole}, [=, bytes = desc.get_size()](const Pointers& p) {
    fill_zeros(p.get<std::byte>(0), part.shift);
    fill_zeros(p.get<std::byte>(0) + end, bytes - end);
  });
  return lowering.view(whole, made, part.shift);
}

void spread_gradients(Lowering& lowering, RegionId cropped, RegionId whole, const KernelTaps& taps) {
  const Desc desc = lowering.layout_of(whole);
  const Part part = part_of_taps(desc, taps);
  if (same_memory(part.desc, lowering.layout_of(cropped))) return;  // they were computed in this memory
  lowering.function({}, {whole},
                    [bytes = desc.get_size()](const Pointers& p) { fill_zeros(p.get<std::byte>(0), bytes); });
  lowering.reorder(cropped, lowering.view(whole, part.desc, part.shift));
}

}  // namespace telar::cpu
