#pragma once

#include <cstdint>

#include "telar/graph/training_step.h"

namespace telar {

Initializer constant_initializer(double value);

/// Uniform over ±1/√fan_in: what PyTorch's linear and convolution layers start from, weight (kaiming_uniform with
/// a = √5) and bias alike. fan_in: inputs that one output adds up.
Initializer uniform_fan_in(int64_t fan_in);

/// Normal with standard deviation √(2 / fan_out) (He et al., 2015): torchvision's residual networks.
/// fan_out: outputs × kernel elements.
Initializer kaiming_normal_fan_out(int64_t fan_out);

Initializer standard_normal();

}  // namespace telar
