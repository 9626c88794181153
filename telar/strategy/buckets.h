#pragma once

#include "telar/graph/program.h"

namespace telar {

/// The step's parameters in the order in which the gradient graph completes their gradients. Running
/// statistics follow, and then parameters without a gradient because they are not trained.
std::vector<ParameterInfo> in_gradient_order(const TrainingStep& step);

/// Buckets of consecutive parameters that have a gradient in the graph. A bucket ends once it has at least
/// `bytes`.
std::vector<Bucket> make_buckets(const std::vector<ParameterInfo>& parameters, const Graph& gradient,
                                 size_t bytes);

/// The gradient graph with a `reduce_bucket` after the node that completes each bucket.
Graph insert_bucket_reductions(const Graph& gradient, const std::vector<Bucket>& buckets);

}  // namespace telar
