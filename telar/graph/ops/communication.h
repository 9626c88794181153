#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// Operations that a strategy inserts. The runtime, not the device, executes them
/// (HostOperations::communicate).

/// Starts the sum of the gradients of bucket `bucket` of the program over the group; does not wait.
void reduce_bucket(GraphBuilder& builder, int64_t bucket);

/// The values of all members, concatenated: x f32 [K] gives [members, K]; row r is that of rank r.
ValueId all_gather(GraphBuilder& builder, ValueId x, int64_t members);

}  // namespace telar
