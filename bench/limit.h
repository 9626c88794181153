#pragma once

#include "telar/bench/timing.h"
#include "telar/graph/program.h"

namespace telar::bench {

struct Limit {
  double products_ms =
      0;  ///< every convolution and product of the gradient graph, alone, in oneDNN's best layouts
  double optimizer_ms = 0;  ///< the optimizer's bytes over the bandwidth of a copy in as much memory
  double total() const { return products_ms + optimizer_ms; }
};

/// What the step cannot go below on the calling thread's team: medians of at least `seconds` in all.
Limit measure_limit(const TrainingStep& step, double seconds);

/// A convolution or product of matrices of the graph, the first there, alone on the calling thread's team: a convolution in oneDNN's best
/// layouts, a product row-major as it is given. Times of at least `seconds` and 10 calls; with 0 seconds, of
/// 3 calls.
Times time_alone(const Graph& graph, double seconds);

/// The first convolution of the graph, and the sum of its results by oneDNN's reduction.
Times time_summed(const Graph& graph, double seconds);

}  // namespace telar::bench
