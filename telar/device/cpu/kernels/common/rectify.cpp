#include "telar/device/cpu/kernels/common/rectify.h"

#include "telar/core/simd.h"
#include "telar/device/cpu/parallel.h"

namespace telar::cpu {

namespace {

constexpr int64_t kElementsAThread = 1 << 14;

// A bf16 value is the upper half of an f32. −∞ is 0xff80; NaNs with a sign are above it.
constexpr uint16_t kMinusZero = 0x8000;
constexpr uint16_t kMinusInfinity = 0xff80;

TELAR_FOR_EACH_CPU
void rectify_f32(const float* x, float* y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] <= 0.0F ? 0.0F : x[i];
}

TELAR_FOR_EACH_CPU
void rectify_bf16(const uint16_t* x, uint16_t* y, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    y[i] = x[i] >= kMinusZero && x[i] <= kMinusInfinity ? uint16_t{0} : x[i];
}

TELAR_FOR_EACH_CPU
void rectify_gradient_f32(const float* dy, const float* y, float* dx, int64_t count) {
  for (int64_t i = 0; i < count; ++i) dx[i] = y[i] <= 0.0F ? 0.0F : dy[i];
}

TELAR_FOR_EACH_CPU
void rectify_gradient_bf16(const uint16_t* dy, const uint16_t* y, uint16_t* dx, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    dx[i] = y[i] == 0 || (y[i] >= kMinusZero && y[i] <= kMinusInfinity) ? uint16_t{0} : dy[i];
}

/// Calls f32(begin, end) or bf16(begin, end) on the threads' parts of the elements.
template <typename F32, typename Bf16>
void for_elements(DType dtype, int64_t bytes, const F32& f32, const Bf16& bf16) {
  if (dtype == DType::f32) return parallel_for(bytes / 4, kElementsAThread, f32);
  parallel_for(bytes / 2, kElementsAThread, bf16);
}

template <typename T>
const T* values(const void* memory, int64_t begin) {
  return static_cast<const T*>(memory) + begin;
}

template <typename T>
T* values(void* memory, int64_t begin) {
  return static_cast<T*>(memory) + begin;
}

}  // namespace

void rectify(DType dtype, int64_t bytes, const void* x, void* y) {
  for_elements(
      dtype, bytes,
      [=](int64_t begin, int64_t end) {
        rectify_f32(values<float>(x, begin), values<float>(y, begin), end - begin);
      },
      [=](int64_t begin, int64_t end) {
        rectify_bf16(values<uint16_t>(x, begin), values<uint16_t>(y, begin), end - begin);
      });
}

void rectify_gradient(DType dtype, int64_t bytes, const void* dy, const void* y, void* dx) {
  for_elements(
      dtype, bytes,
      [=](int64_t begin, int64_t end) {
        rectify_gradient_f32(values<float>(dy, begin), values<float>(y, begin), values<float>(dx, begin),
                             end - begin);
      },
      [=](int64_t begin, int64_t end) {
        rectify_gradient_bf16(values<uint16_t>(dy, begin), values<uint16_t>(y, begin),
                              values<uint16_t>(dx, begin), end - begin);
      });
}

}  // namespace telar::cpu
