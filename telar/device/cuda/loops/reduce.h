#pragma once

#include <driver_types.h>

#include <cstdint>

#include "telar/core/dtype.h"
#include "telar/device/cuda/loops/pieces.h"
#include "telar/device/cuda/loops/walk.h"

// GPU loops (see launch.h). Each function enqueues its work on a stream. Types are f32 and bf16, reduced in
// f32; others are an error (cudaErrorInvalidValue).
namespace telar::cuda {

enum class Reduction : uint8_t { sum, mean, max };

/// Which elements of x are reduced to which result.
struct ReducedAxes {
  LongWalk<1> kept;     ///< from the index of a result to its first element
  LongWalk<1> reduced;  ///< from its first element to the others
  Pieces pieces;
};

/// y[r] = the sum, mean or maximum of its elements; NaN if one of them is. `between`: axes.pieces.between()
/// numbers, f32.
cudaError_t reduce_values(Reduction reduction, const void* x, void* y, DType dtype, const ReducedAxes& axes,
                          float* between, cudaStream_t stream);

/// ties[r] = the number of elements of result r that equal y[r]; f32.
cudaError_t count_ties(const void* x, const void* y, float* ties, DType dtype, const ReducedAxes& axes,
                       float* between, cudaStream_t stream);

/// dx[i] = dy[r] / ties[r] if x[i] equals y[r], else 0. The walk visits y, dy and ties for every i.
cudaError_t spread_to_ties(const void* dy, const void* x, const void* y, const float* ties, void* dx,
                           DType dtype, const LongWalk<1>& walk, cudaStream_t stream);

}  // namespace telar::cuda
