#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "telar/core/error.h"
#include "telar/core/shape.h"
#include "telar/device/cuda/layouts.h"
#include "telar/device/cuda/loops/walk.h"

namespace telar::cuda {

/// Elements from one element of each axis to the next in a tensor that lies like this; of a tensor [N, C, H,
/// W] alone channels may lie last.
std::vector<int64_t> strides_of(const Shape& shape, Layout layout);

/// The axes of a tensor of this rank in the order in which they lie, the one with the longest way between
/// elements first.
std::vector<size_t> axes_as_they_lie(size_t rank, Layout layout);

/// The shape with leading ones up to `rank` axes.
Shape padded(const Shape& shape, size_t rank);

/// strides_of, but 0 for axes of one element: what an operand is walked with that is broadcast.
std::vector<int64_t> broadcast_strides(const Shape& shape, Layout layout, size_t rank);

/// Puts an axis behind those of a walk. One of extent 1 is left out, and one that all arrays go on through as
/// through the axis before it becomes one with that. Throws Error (run) when there are too many axes.
template <size_t kArrays>
void append_axis(LongWalk<kArrays>& walk, int64_t extent, const std::array<int64_t, kArrays>& strides) {
  if (extent == 1) return;
  bool continues = walk.axes > 0;
  for (size_t k = 0; k < kArrays && continues; ++k)
    continues = walk.strides[k][walk.axes - 1] == strides[k] * extent;
  if (!continues) {
    if (walk.axes == kMostAxes)
      throw run_error("a GPU cannot compute with more than {} axes that lie apart", kMostAxes);
    walk.extents[walk.axes++] = 1;
  }
  walk.extents[walk.axes - 1] *= extent;
  for (size_t k = 0; k < kArrays; ++k) walk.strides[k][walk.axes - 1] = strides[k];
}

}  // namespace telar::cuda
