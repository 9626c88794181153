#include "telar/device/cpu/kernels/common/winograd.h"

#include <algorithm>

#include "telar/core/error.h"
#include "telar/device/cpu/processor_support.h"

namespace telar::cpu {

namespace {

constexpr int64_t kTile = 4;  // outputs of a tile along each axis
// With fewer tiles, the transformed weights cost more memory traffic than they save.
constexpr int64_t kFewTiles = 32;

constexpr int64_t kFewChannels = 16;  // one vector; images with fewer channels are padded

int64_t tiles_along(int64_t extent) { return (extent + kTile - 1) / kTile; }

bool all_are(const dnnl::memory::dims& values, int64_t wanted) {
  return std::all_of(values.begin(), values.end(), [=](int64_t value) { return value == wanted; });
}

/// oneDNN refuses a convolution for which it has no Winograd kernel.
bool available(const ConvolutionTensors& t, ConvolutionShape shape) {
  shape.winograd = true;
  try {
    const auto forward = convolution_forward(true, any(t.dtype, t.x), any(t.dtype, t.w), Desc(),
                                             any(t.dtype, t.y), shape, false);
    convolution_backward_data(any(t.dtype, t.x), any(t.dtype, t.w), any(t.dtype, t.y), shape, forward);
    convolution_backward_weights(any(t.dtype, t.x), any(DType::f32, t.w), Desc(), any(t.dtype, t.y), shape,
                                 forward);
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_unimplemented) return false;
    throw;
  }
  return true;
}

}  // namespace

bool winograd_pays(const ConvolutionTensors& t, const ConvolutionShape& shape) {
  if (t.dtype != DType::f32 || t.w.rank() != 4 || t.w[2] != 3 || t.w[3] != 3) return false;
  if (t.w[1] < kFewChannels) return false;
  if (!all_are(shape.strides, 1) || !all_are(shape.dilations, 1)) return false;
  const int64_t tiles = tiles_along(t.y[2]) * tiles_along(t.y[3]);
  if (t.x[0] * tiles < kFewTiles) return false;
  // Multiplications; the direct convolution needs 9 for each output.
  constexpr int64_t kOfTile = (kTile + 2) * (kTile + 2);
  if (2 * tiles * kOfTile > 9 * t.y[2] * t.y[3]) return false;
  if (const std::string missing = winograd_missing(); !missing.empty()) throw user_error("{}", missing);
  return available(t, shape);
}

}  // namespace telar::cpu
