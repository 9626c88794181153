#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// An f32 tensor with all elements equal to `value`. The shape has no batch axis.
ValueId constant(GraphBuilder& builder, double value, const Shape& shape);

/// Whether all its elements are the constant one.
bool is_one(const Graph& graph, ValueId value);

/// The same for each sample: f32 [N, item…], where N is axis 0 of `batch_of`, whose values do not count.
ValueId fill(GraphBuilder& builder, double value, ValueId batch_of, const Shape& item);

}  // namespace telar
