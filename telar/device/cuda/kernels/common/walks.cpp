#include "telar/device/cuda/kernels/common/walks.h"

namespace telar::cuda {

std::vector<size_t> axes_as_they_lie(size_t rank, Layout layout) {
  if (layout == Layout::channels_last) return {0, 2, 3, 1};
  std::vector<size_t> axes;
  for (size_t axis = 0; axis < rank; ++axis) axes.push_back(axis);
  return axes;
}

std::vector<int64_t> strides_of(const Shape& shape, Layout layout) {
  const std::vector<size_t> axes = axes_as_they_lie(shape.rank(), layout);
  std::vector<int64_t> strides(shape.rank());
  int64_t stride = 1;
  for (size_t i = axes.size(); i-- > 0;) {
    strides[axes[i]] = stride;
    stride *= shape[axes[i]];
  }
  return strides;
}

Shape padded(const Shape& shape, size_t rank) {
  std::vector<int64_t> dims(rank - shape.rank(), 1);
  dims.insert(dims.end(), shape.begin(), shape.end());
  return Shape(dims);
}

std::vector<int64_t> broadcast_strides(const Shape& shape, Layout layout, size_t rank) {
  std::vector<int64_t> strides(rank - shape.rank(), 0);
  const std::vector<int64_t> own = strides_of(shape, layout);
  for (size_t axis = 0; axis < shape.rank(); ++axis) strides.push_back(shape[axis] == 1 ? 0 : own[axis]);
  return strides;
}

}  // namespace telar::cuda
