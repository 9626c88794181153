#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// buffer += value. A gradient graph can leave results only in this way. The runtime decides whether the
/// first accumulation of a step overwrites instead of adding. Buffer and value must have the same f32 shape.
void accumulate(GraphBuilder& builder, ValueId buffer, ValueId value);

/// buffer += value × axis 0 of `batch_of`: statistics of a batch, weighted by its number of samples.
void accumulate_times_batch(GraphBuilder& builder, ValueId buffer, ValueId value, ValueId batch_of);

}  // namespace telar
