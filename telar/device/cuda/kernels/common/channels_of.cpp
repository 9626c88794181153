#include "telar/device/cuda/kernels/common/channels_of.h"

namespace telar::cuda {

Channels channels_of(const Lowering& lowering, ValueId value) {
  const Shape& shape = lowering.shape(value);
  const int64_t pixels = shape.rank() == 4 ? shape[2] * shape[3] : 1;
  return {shape[0], shape[1], pixels, pixels == 1 || lowering.layout(value) == Layout::channels_last};
}

}  // namespace telar::cuda
