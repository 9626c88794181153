#pragma once

#include <functional>
#include <vector>

#include "telar/bench/timing.h"
#include "telar/graph/program.h"

namespace telar::bench {

struct Limit {
  double products_ms =
      0;  ///< every convolution and product of the gradient graph, alone, in oneDNN's best layouts
  double optimizer_ms = 0;  ///< the optimizer's bytes over the bandwidth of a copy in as much memory
  double total() const { return products_ms + optimizer_ms; }
};

/// What a step cannot go below, on the calling thread's team, made ready to be measured again and again: in turns with the step itself,
/// so that a change of the machine's pace meets both.
class StepAlone {
 public:
  explicit StepAlone(const TrainingStep& step);
  /// Each different operation for its share of `seconds`, and at least two calls after a first one: the sum of their medians.
  Limit measure(double seconds);

 private:
  struct Operation {
    std::function<void()> call;
    int times;  ///< in a step
  };
  std::vector<Operation> operations_;
  std::function<void()> copy_;
  double copies_ = 0;  ///< that the optimizer is worth
};

/// A convolution or product of matrices of the graph, the first there, alone on the calling thread's team: a convolution in oneDNN's best
/// layouts, a product row-major as it is given. Times of at least `seconds` and 10 calls; with 0 seconds, of
/// 3 calls.
Times time_alone(const Graph& graph, double seconds);

/// The first convolution of the graph, and the sum of its results by oneDNN's reduction.
Times time_summed(const Graph& graph, double seconds);

}  // namespace telar::bench
