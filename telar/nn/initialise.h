#pragma once

#include <span>

#include "telar/graph/training_step.h"

namespace telar {

/// Fills `values` (parameter.shape.elements() of them, in canonical order) with the parameter's initial
/// values. Unless they are given, they depend only on (seed, parameter.name), not on the machine or on the
/// order in which parameters are filled. Throws Error (run) when the sizes differ.
void initialise(const ParameterInfo& parameter, uint64_t seed, std::span<float> values);

}  // namespace telar
