#pragma once

#include <cstddef>
#include <vector>

#include "telar/graph/graph.h"
#include "telar/runtime/session.h"

namespace telar {

/// Of one sample of a batch.
struct SampleBytes {
  size_t x = 0;
  size_t label = 0;
};
/// As this graph takes them.
SampleBytes sample_bytes(const Graph& graph);

/// Cuts a batch, without copying it, into contiguous parts in proportion to `shares`, as split_by_shares() does.
std::vector<BatchView> split_batch(const BatchView& batch, const SampleBytes& bytes,
                                   const std::vector<double>& shares);

}  // namespace telar
