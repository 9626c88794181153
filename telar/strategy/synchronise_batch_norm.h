#pragma once

#include <functional>
#include <optional>
#include <string>

#include "telar/core/option.h"
#include "telar/graph/graph.h"

namespace telar {

/// The option `batch_norm`, and whether it is "synchronised".
Option batch_norm_option();
bool synchronises_batch_norm(const Attributes& options);

/// The workers whose samples a batch normalisation takes together.
struct StatisticsGroup {
  std::string name;
  int64_t members = 1;
};

/// The gradient graph with batch normalisation over the samples of the members of a group. `group_of`: the
/// group for the parameter gamma of a batch normalisation; none: its own samples only. Each member
/// contributes mean, squared deviation and count of its part. The gathered statistics are combined exactly
/// (Chan, Golub and LeVeque, 1979), and the two sums of the backward pass are gathered in the same way.
/// Equals one device with the whole batch.
Graph synchronise_batch_norm(
    const Graph& gradient,
    const std::function<std::optional<StatisticsGroup>(const std::string& gamma)>& group_of);

}  // namespace telar
