#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// Operations that a strategy inserts; the runtime, not the device, executes them (HostOperations::communicate).

/// Starts summing the gradients of bucket `bucket` of the program over the group; nothing waits here.
void reduce_bucket(GraphBuilder& builder, int64_t bucket);

/// The members' values one behind the other: x f32 [K] gives [members, K]; row r is rank r's.
ValueId all_gather(GraphBuilder& builder, ValueId x, int64_t members);

/// True for the operations of this file.
bool is_communication(const Op& op);

}  // namespace telar
