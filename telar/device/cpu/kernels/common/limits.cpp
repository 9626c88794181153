#include "telar/device/cpu/kernels/common/limits.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace telar::cpu {

namespace {

float value_of(float value) { return value; }
float value_of(uint16_t bf16) { return std::bit_cast<float>(static_cast<uint32_t>(bf16) << 16U); }

void store(float& to, float value) { to = value; }
/// The value has no digits that bf16 lacks, or they do not matter.
void store(uint16_t& to, float value) { to = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16U); }

template <typename T>
void correct(const T* arguments, const T* slopes, T* results, int64_t count, float above, float below,
             bool times_slope) {
  for (int64_t i = 0; i < count; ++i) {
    const float x = value_of(arguments[i]);
    if (std::isfinite(x)) continue;
    const float limit = std::isnan(x) ? x : x > 0 ? above : below;
    store(results[i], times_slope ? limit * value_of(slopes[i]) : limit);
  }
}

}  // namespace

void correct_limits(Lowering& lowering, const Desc& layout, const std::array<RegionId, 3>& regions,
                    float above, float below, bool times_slope) {
  const auto bytes = static_cast<int64_t>(layout.get_size());
  const bool f32 = layout.data_type() == dnnl::memory::data_type::f32;
  lowering.function({regions[0], regions[1]}, {regions[2]}, [=](const Pointers& p) {
    if (f32) {
      correct(p.get<const float>(0), p.get<const float>(1), p.get<float>(2), bytes / 4, above, below,
              times_slope);
    } else {
      correct(p.get<const uint16_t>(0), p.get<const uint16_t>(1), p.get<uint16_t>(2), bytes / 2, above, below,
              times_slope);
    }
  });
}

}  // namespace telar::cpu
