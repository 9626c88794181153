#pragma once

#include <span>

#include "telar/graph/training_step.h"

namespace telar {

/// Fills `values` (parameter.shape.elements() of them, canonical order) with the parameter's first values: a function of
/// (seed, parameter.name) alone, the same in whatever order and on whatever machine parameters are filled.
/// Throws Error (run) when the sizes differ.
void initialise(const ParameterInfo& parameter, uint64_t seed, std::span<float> values);

}  // namespace telar
