#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// Row tokens[…] of the table for each token. tokens: [N, T] or [N] i32, each in 0 … V−1; table: [V, D] f32
/// or bf16; y: [N, T, D] or [N, D] of the table's dtype. A token out of range: a run on a CPU throws Error
/// (user), naming the first such token; a GPU cannot throw, and sets the token's row to NaN. The gradient of
/// the table is dense: [V, D] f32.
ValueId embedding(GraphBuilder& builder, ValueId tokens, ValueId table);

/// The same with a part of the table: its rows [first, first + R) of `vocabulary`, [R, D]. A token whose row
/// is elsewhere gives zeros, so the sum over all parts is that of the whole table. CPUs only.
ValueId embedding_of_part(GraphBuilder& builder, ValueId tokens, ValueId part, int64_t first,
                          int64_t vocabulary);

}  // namespace telar
