#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// buffer += value. The only way in which a
/// gradient graph leaves results behind. Whether the first accumulation of a step overwrites instead of adding is
/// the runtime's choice. Types of buffer and value must be the same f32 shape.
void accumulate(GraphBuilder& builder, ValueId buffer, ValueId value);

/// buffer += value × axis 0 of `batch_of`: statistics of a batch, weighted by its samples.
void accumulate_times_batch(GraphBuilder& builder, ValueId buffer, ValueId value, ValueId batch_of);

}  // namespace telar
