#pragma once

#include <cstdint>

#include "telar/graph/training_step.h"

namespace telar {

Initializer constant_initializer(double value);

/// Uniform over ±1/√fan_in: PyTorch's initial values of linear and convolution layers, for weights
/// (kaiming_uniform with a = √5) and biases. fan_in: number of inputs summed for one output.
Initializer uniform_fan_in(int64_t fan_in);

/// Normal with standard deviation √(2 / fan_out) (He et al., 2015), as in torchvision's residual networks.
/// fan_out: outputs × kernel elements.
Initializer kaiming_normal_fan_out(int64_t fan_out);

Initializer standard_normal();

}  // namespace telar
