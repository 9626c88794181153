#pragma once

#include <functional>

#include "telar/device/cpu/onednn.h"

namespace telar::cpu {

using WeightsToBf16 = std::function<void(const float* from, uint16_t* to)>;

/// Brings f32 weights in blocks of 16 inputs × 16 outputs, as their gradients are made, into the layouts in
/// which convolutions and products in bf16 read them (forward: pairs of inputs; for the gradient of the data:
/// pairs of outputs), with the caller's thread team. Empty for other layouts, for which a reorder of oneDNN's
/// must do: of these two it makes up to ten times what the memory would take.
WeightsToBf16 weights_to_bf16(const Desc& from, const Desc& to);

}  // namespace telar::cpu
