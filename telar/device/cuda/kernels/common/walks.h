#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "telar/core/error.h"
#include "telar/core/shape.h"
#include "telar/device/cuda/layouts.h"
#include "telar/device/cuda/loops/walk.h"

namespace telar::cuda {

/// Strides in elements for each axis of a tensor in this layout. Only [N, C, H, W] can have channels last.
std::vector<int64_t> strides_of(const Shape& shape, Layout layout);

/// The axes of a tensor of this rank in storage order, the one with the largest stride first.
std::vector<size_t> axes_as_they_lie(size_t rank, Layout layout);

/// The shape with leading ones, up to `rank` axes.
Shape padded(const Shape& shape, size_t rank);

/// strides_of, but 0 for axes of one element: the strides of a broadcast operand.
std::vector<int64_t> broadcast_strides(const Shape& shape, Layout layout, size_t rank);

/// Appends an axis to a walk as its innermost one. An axis of extent 1 is skipped. An axis that is contiguous
/// with the previous one in all arrays is merged with it. Throws Error (run) when there are too many axes.
template <size_t kArrays>
void append_axis(LongWalk<kArrays>& walk, int64_t extent, const std::array<int64_t, kArrays>& strides) {
  if (extent == 1) return;
  bool continues = walk.axes > 0;
  for (size_t k = 0; k < kArrays && continues; ++k)
    continues = walk.strides[k][walk.axes - 1] == strides[k] * extent;
  if (!continues) {
    if (walk.axes == kMostAxes)
      throw run_error("a GPU cannot compute with more than {} axes that are not contiguous", kMostAxes);
    walk.extents[walk.axes++] = 1;
  }
  walk.extents[walk.axes - 1] *= extent;
  for (size_t k = 0; k < kArrays; ++k) walk.strides[k][walk.axes - 1] = strides[k];
}

}  // namespace telar::cuda
