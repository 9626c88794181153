#pragma once

#include <string>

#include "telar/graph/graph.h"

namespace telar {

/// Operations with which a strategy cuts a step into graphs that run on different workers of one process. A value goes from one
/// graph to another under a name that begins with '%': `deliver` hands it out, an input of that name takes it in. The memory
/// between them holds the whole batch, of which a run for a micro-batch writes and reads its own samples.

/// Hands `value`, whose axis 0 is the batch, to the graphs that have the input `name`.
void deliver(GraphBuilder& builder, ValueId value, const std::string& name);

/// Where the run of a graph halts, and later goes on: between forward and backward. Once in a graph at most.
void pause(GraphBuilder& builder);

/// True for the name of a value that goes from graph to graph.
inline bool is_delivered(const std::string& name) { return name.starts_with('%'); }

}  // namespace telar
