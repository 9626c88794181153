#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "telar/graph/graph.h"
#include "telar/runtime/session.h"

namespace telar {

/// The inputs of each sample that a graph has, besides its id, by name.
using SampleInputs = std::map<std::string, BatchTensor, std::less<>>;
SampleInputs sample_inputs(const Graph& graph);

/// Throws Error (run) unless the batch has all of these.
void require_inputs(const BatchView& batch, const SampleInputs& inputs);

/// Whether an f32 input of a batch has a NaN or infinity.
bool has_non_finite(const BatchView& batch, const SampleInputs& inputs);

/// The samples [first, first + size) of a batch. Copies nothing.
BatchView slice(const BatchView& batch, int64_t first, int64_t size, const SampleInputs& inputs);

/// Splits a batch into contiguous parts in proportion to `shares`, as split_by_shares() does. Copies nothing.
std::vector<BatchView> split_batch(const BatchView& batch, const SampleInputs& inputs,
                                   const std::vector<double>& shares, int64_t least = 1);

/// The samples of every share of a batch of `samples`, when each of `parts` processes loads an equal part (as
/// a Part of data/assignment.h), which is divided equally into `each` shares. `least`: see Part.
std::vector<int64_t> samples_of_shares(int64_t samples, int64_t parts, int64_t each, int64_t least = 1);

}  // namespace telar
