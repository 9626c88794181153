#pragma once

#include <driver_types.h>

#include <cstdint>

// GPU loops (see launch.h). Each function enqueues its work on a stream.
namespace telar::cuda {

/// Rows of `extent` elements that are `step` apart; `step` rows lie between each other.
struct OrderedRows {
  int64_t rows = 1;
  int64_t extent = 1;
  int64_t step = 1;
  int64_t count = 1;  ///< positions of each row that are wanted
  bool descending = false;
};

/// The first `count` positions of each row in the order of its elements x (f32); equal elements keep their
/// order, and NaN is the greatest. One position is a reduction; of several, each element counts those before
/// it, which takes extent² comparisons a row.
cudaError_t order(const float* x, int32_t* y, const OrderedRows& rows, cudaStream_t stream);

}  // namespace telar::cuda
