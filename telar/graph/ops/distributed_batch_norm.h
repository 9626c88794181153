#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// The parts of batch normalisation between which a strategy exchanges values. x: [N, C, H, W] or [N, C], f32
/// or bf16.

/// [2·C + 1] f32 of this part: mean per channel, Σ (x − mean)² per channel, and the number of values in a
/// channel.
ValueId batch_norm_statistics(GraphBuilder& builder, ValueId x);

struct BatchStatistics {
  ValueId statistics = kNoValue;  ///< [2·C + 1]: mean, biased variance, count over all members
  ValueId mean = kNoValue;        ///< [C]
  ValueId variance = kNoValue;    ///< [C], as BatchNormResult has it
};
/// Combines the gathered statistics [members, 2·C + 1] in rank order.
BatchStatistics combine_statistics(GraphBuilder& builder, ValueId gathered, bool biased = false);

/// y = gamma · (x − mean) / √(variance + epsilon) + beta.
ValueId batch_norm_apply(GraphBuilder& builder, ValueId x, ValueId gamma, ValueId beta, ValueId statistics,
                         double epsilon);

struct BatchNormSums {
  ValueId both = kNoValue;   ///< [2·C]: Σ dy, then Σ dy · x̂, of this part
  ValueId gamma = kNoValue;  ///< [C]: this part's gradient of gamma, Σ dy · x̂
  ValueId beta = kNoValue;   ///< [C]: this part's gradient of beta, Σ dy
};
BatchNormSums batch_norm_backward_sums(GraphBuilder& builder, ValueId x, ValueId dy, ValueId statistics,
                                       double epsilon);

/// dx = gamma / √(variance + epsilon) · (dy − Σ dy / n − x̂ · Σ dy·x̂ / n), with the sums over the gathered
/// [members, 2·C].
ValueId batch_norm_backward_apply(GraphBuilder& builder, ValueId x, ValueId dy, ValueId gamma,
                                  ValueId statistics, ValueId gathered, double epsilon);

}  // namespace telar
