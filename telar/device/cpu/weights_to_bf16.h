#pragma once

#include <functional>

#include "telar/device/cpu/onednn.h"

namespace telar::cpu {

using WeightsToBf16 = std::function<void(const float* from, uint16_t* to)>;

/// Converts f32 weights from the layout of their gradients, blocks of 16 inputs × 16 outputs, to the layouts
/// in which bf16 convolutions and products read them (forward: pairs of inputs; for the data gradient: pairs
/// of outputs). Uses the caller's thread team. Empty for other layouts, which need a oneDNN reorder; for
/// these two layouts, oneDNN's reorder takes up to ten times as long as the memory traffic.
WeightsToBf16 weights_to_bf16(const Desc& from, const Desc& to);

}  // namespace telar::cpu
