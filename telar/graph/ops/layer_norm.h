#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// Layer normalisation over the last axis (Ba et al., 2016): y = gamma · (x − mean) / √(variance + epsilon) +
/// beta, with the mean and biased variance of each row. x: [N, …, D] f32 or bf16; gamma, beta: [D] f32; y:
/// x's type.
ValueId layer_norm(GraphBuilder& builder, ValueId x, ValueId gamma, ValueId beta, double epsilon);

}  // namespace telar
