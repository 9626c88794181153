#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "telar/bench/limits.h"
#include "telar/bench/result.h"
#include "telar/core/dtype.h"
#include "telar/graph/graph.h"

namespace telar::bench {

struct SweepOptions {
  std::vector<int64_t> sizes;        ///< of the matrices' sides, or numbers of images
  std::vector<std::string> devices;  ///< telar/bench/place.h
  std::vector<RowPrecision> precisions{{}};
  int repetitions = 10;                              ///< at least; and more, until a second is over
  std::function<bool()> stop_requested;              ///< asked between rows; may be empty
  std::function<void(const std::string& text)> say;  ///< what is measured now; may be empty
};

/// Products of square matrices: C = A · B, row-major.
Result measure_matmul(const SweepOptions& options);

/// Convolutions of images of 128×128×3 with 32 filters of 8×8, without padding, and the sum of the result.
Result measure_conv(const SweepOptions& options);

/// The graphs that these measure. Inputs "a" and "b", or "x" and "w"; output "y".
Graph matmul_graph(int64_t side, DType dtype);
Graph conv_graph(int64_t images, DType dtype);

}  // namespace telar::bench
