#pragma once

#include <array>

#include "telar/device/cpu/lowering.h"

namespace telar::cpu {

/// Corrects what a primitive has computed element by element, where `arguments` are not finite: the result is
/// NaN for a NaN, `above` for ∞ and `below` for −∞. With `times_slope`, it is that times the slope. All have
/// the same layout, f32 or bf16. `regions`: the arguments, the slopes and the results.
void correct_limits(Lowering& lowering, const Desc& layout, const std::array<RegionId, 3>& regions,
                    float above, float below, bool times_slope = false);

}  // namespace telar::cpu
