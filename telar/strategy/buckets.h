#pragma once

#include <functional>
#include <string>

#include "telar/core/option.h"
#include "telar/graph/program.h"

namespace telar {

/// The step's parameters in the order in which the gradient graph completes their gradients. Running
/// statistics follow, and then parameters without a gradient because they are not trained.
std::vector<ParameterInfo> in_gradient_order(const TrainingStep& step);

/// The option `bucket_mb`, and its value in bytes.
Option bucket_option();
size_t bucket_bytes(const Attributes& options);

/// Buckets of parameters that have a gradient in the graph, in their order. A bucket ends once it has at
/// least `bytes`. `group_of`: the group over which a parameter's gradient is summed, or "" if it is not
/// summed; absent: all workers.
std::vector<Bucket> make_buckets(const std::vector<ParameterInfo>& parameters, const Graph& gradient,
                                 size_t bytes,
                                 const std::function<std::string(const std::string&)>& group_of = {});

/// The gradient graph with a `reduce_bucket` after the node that completes each bucket. Buckets of one group
/// are started in their order.
Graph insert_bucket_reductions(const Graph& gradient, const std::vector<Bucket>& buckets);

}  // namespace telar
