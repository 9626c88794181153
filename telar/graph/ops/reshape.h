#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// The same elements in another shape. One extent may be −1, which is inferred (usually the batch); 0 keeps
/// the input's extent of that axis. Any dtype.
ValueId reshape(GraphBuilder& builder, ValueId x, const std::vector<int64_t>& dims);

/// [N, …] to [N, product of the rest].
ValueId flatten(GraphBuilder& builder, ValueId x);

}  // namespace telar
