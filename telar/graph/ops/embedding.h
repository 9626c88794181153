#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// Row tokens[…] of the table for each token. tokens: [N, T] or [N] i32, each in 0 … V−1 (a run throws Error
/// (user) naming the first that is not; a GPU cannot, and makes its row NaN); table: [V, D] f32 or bf16; y:
/// [N, T, D] or [N, D] of the table's dtype. The table's gradient is dense: [V, D] f32.
ValueId embedding(GraphBuilder& builder, ValueId tokens, ValueId table);

}  // namespace telar
