#include "telar/data/pixel_loops.h"

#include "telar/core/simd.h"

namespace telar {

namespace {

TELAR_FOR_EACH_CPU
void scale_bytes(const uint8_t* __restrict bytes, float scale, float* __restrict out, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<float>(bytes[i]) * scale;
}

TELAR_FOR_EACH_CPU
void shift_values(float* values, float scale, float shift, size_t count) {
  for (size_t i = 0; i < count; ++i) values[i] = values[i] * scale + shift;
}

}  // namespace

void scaled_bytes(std::span<const uint8_t> bytes, float scale, std::span<float> out) {
  scale_bytes(bytes.data(), scale, out.data(), out.size());
}

void scale_and_shift(std::span<float> values, float scale, float shift) {
  shift_values(values.data(), scale, shift, values.size());
}

}  // namespace telar
