#pragma once

#include <string>

#include "telar/graph/graph.h"

namespace telar {

/// Operations with which a strategy cuts a step into graphs that run on different workers of one process. A
/// value passes from one graph to another under a name that begins with '%': `deliver` writes it, and an
/// input of that name reads it. The memory between them holds the whole batch; a run for a micro-batch writes
/// and reads its own samples.

/// Passes `value`, whose axis 0 is the batch, to the graphs that have the input `name`.
void deliver(GraphBuilder& builder, ValueId value, const std::string& name);

/// The point at which a run of the graph halts and later continues: between forward and backward. At most one
/// per graph.
void pause(GraphBuilder& builder);

/// Whether this is the name of a value that passes from graph to graph.
inline bool is_delivered(const std::string& name) { return name.starts_with('%'); }

}  // namespace telar
