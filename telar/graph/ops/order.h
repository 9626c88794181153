#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// Positions along an axis in the order of the elements there: the first `count` of them. x: f32; y: i32,
/// with extent `count` in place of the axis. `descending`: the greatest element comes first. Equal elements
/// keep their order, and NaN is greater than any number, as with torch.sort(stable=True). So count 1 gives
/// the position of the first minimum or maximum. Positions have no gradient; the elements themselves are
/// gather(x, y), which has.
ValueId order(GraphBuilder& builder, ValueId x, int64_t axis, int64_t count, bool descending);

}  // namespace telar
