#pragma once

#include <functional>
#include <vector>

#include "telar/bench/timing.h"
#include "telar/graph/program.h"

namespace telar::bench {

struct Limit {
  /// every convolution and product of the gradient graph, alone, in oneDNN's best layouts
  double products_ms = 0;
  /// the optimizer's bytes divided by the bandwidth of a copy within as much memory
  double optimizer_ms = 0;
  double total() const { return products_ms + optimizer_ms; }
};

/// The lower limit of a step's time on the calling thread's team. It is prepared once, so that it can be
/// measured repeatedly in turns with the step itself: a change of the machine's speed then affects both.
class StepAlone {
 public:
  explicit StepAlone(const TrainingStep& step);
  /// The sum of the medians of all operations. Each distinct operation gets its share of `seconds`, and at
  /// least two calls after a first one.
  Limit measure(double seconds);

 private:
  struct Operation {
    std::function<void()> call;
    int times;  ///< per step
  };
  std::vector<Operation> operations_;
  std::function<void()> copy_;
  double copies_ = 0;  ///< number of copies that take as long as the optimizer
};

/// Times the first convolution or matrix product of the graph alone, on the calling thread's team: a
/// convolution in oneDNN's best layouts, a product with row-major operands. Runs at least `seconds` and 10
/// calls; with 0 seconds, 3 calls.
Times time_alone(const Graph& graph, double seconds);

/// Times the first convolution of the graph, followed by the sum of its results by oneDNN's reduction.
Times time_summed(const Graph& graph, double seconds);

}  // namespace telar::bench
