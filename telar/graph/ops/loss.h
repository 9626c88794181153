#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// Losses are sums over the samples: f32 [1]. The update divides by the global number of samples.

/// Σₙ −Σ_c q(c) log softmax(logits)ₙ(c), where q is the smoothed one-hot label: (1 − s)·[c = label] + s / C.
/// logits: [N, C] f32; label: [N] i32, each in 0 … C−1 (the data sources check that); 0 ≤ label_smoothing <
/// 1.
ValueId cross_entropy(GraphBuilder& builder, ValueId logits, ValueId label, double label_smoothing);

/// The same of each row, f32 [N], for rows that have weights. CPUs only.
ValueId cross_entropy_of_rows(GraphBuilder& builder, ValueId logits, ValueId label, double label_smoothing);

/// Σₙ (mean over the other axes of (prediction − target)²); both f32, of the same shape [N, …].
ValueId mean_squared_error(GraphBuilder& builder, ValueId prediction, ValueId target);

/// Number of samples whose label is among the k largest logits: f32 [1]. Equal logits count against the
/// sample only when they come before the label, as with an argmax that takes the first maximum. A NaN counts
/// as larger than all numbers, and is never correct.
ValueId top_k_correct(GraphBuilder& builder, ValueId logits, ValueId label, int64_t k);

}  // namespace telar
