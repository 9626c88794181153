#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// The gradient graph with batch normalisation over the samples of all `members`. Each member contributes
/// mean, squared deviation and count of its part. The gathered statistics are combined exactly (Chan, Golub
/// and LeVeque, 1979), and the two sums of the backward pass are gathered in the same way. Equals one device
/// with the whole batch.
Graph synchronise_batch_norm(const Graph& gradient, int64_t members);

}  // namespace telar
