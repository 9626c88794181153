#pragma once

#include <cstdint>
#include <vector>

#include "telar/graph/graph.h"

namespace telar {

/// The graph of a member that has no sample of a batch for which its group needs it: it still computes its
/// features for the samples of the others, or gives its pieces of parameters. Everything that depends on
/// samples of its own is left out: sums over them (gradients, metrics, statistics) and outputs become zeros.
/// The graph must have been made for 1 sample of its own, and 0 in "rows" (Graph::with_batch).
Graph for_idle_member(const Graph& graph);

/// The graph for a member with `batch` samples of its own, which may be 0. `rows`: see Graph::with_batch.
Graph for_samples(const Graph& graph, int64_t batch, const std::vector<int64_t>& rows);

}  // namespace telar
