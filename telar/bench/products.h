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
  std::vector<int64_t> sizes;        ///< side lengths of the matrices, or numbers of images
  std::vector<std::string> devices;  ///< telar/bench/place.h
  std::vector<RowPrecision> precisions{{}};
  int repetitions = 10;                              ///< the minimum; more until one second has passed
  std::function<bool()> stop_requested;              ///< called between rows; may be empty
  std::function<void(const std::string& text)> say;  ///< receives what is measured now; may be empty
};

/// Products of square matrices: C = A · B, row-major.
Result measure_matmul(const SweepOptions& options);

/// Convolutions of images of 128×128×3 with 32 filters of 8×8, without padding, followed by the sum of the
/// result.
Result measure_conv(const SweepOptions& options);

/// The graphs that these functions measure. Inputs "a" and "b", or "x" and "w"; output "y".
Graph matmul_graph(int64_t side, DType dtype);
Graph conv_graph(int64_t images, DType dtype);

}  // namespace telar::bench
