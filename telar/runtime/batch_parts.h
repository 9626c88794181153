#pragma once

#include <cstddef>
#include <vector>

#include "telar/graph/graph.h"
#include "telar/runtime/session.h"

namespace telar {

/// Bytes of one sample of a batch.
struct SampleBytes {
  size_t x = 0;
  size_t label = 0;
};
/// The sizes that this graph expects.
SampleBytes sample_bytes(const Graph& graph);

/// Splits a batch into contiguous parts in proportion to `shares`, as split_by_shares() does. Copies nothing.
std::vector<BatchView> split_batch(const BatchView& batch, const SampleBytes& bytes,
                                   const std::vector<double>& shares);

/// The samples of every worker of all processes in a batch of `samples`, when each process has an equal part
/// (as a Part of data/assignment.h), which its `local` workers share equally.
std::vector<int64_t> samples_of_workers(int64_t samples, int processes, int local);

}  // namespace telar
