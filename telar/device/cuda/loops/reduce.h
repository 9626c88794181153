#pragma once

#include <driver_types.h>

#include <cstdint>

#include "telar/core/dtype.h"
#include "telar/device/cuda/loops/pieces.h"
#include "telar/device/cuda/loops/walk.h"

// Loops of ours (see launch.h): each function tells a stream to do it. Types are f32 and bf16, reduced in
// f32; another is an error (cudaErrorInvalidValue).
namespace telar::cuda {

enum class Reduction : uint8_t { sum, mean, max };

/// Which elements of x make which result.
struct ReducedAxes {
  LongWalk<1> kept;     ///< from a result's number to the first of its elements
  LongWalk<1> reduced;  ///< from there to the others
  Pieces pieces;
};

/// y[r] = the sum, mean or largest of its elements; NaN when one of them is. `between`: axes.pieces.between()
/// numbers, f32.
cudaError_t reduce_values(Reduction reduction, const void* x, void* y, DType dtype, const ReducedAxes& axes,
                          float* between, cudaStream_t stream);

/// ties[r] = how many elements of result r equal y[r]; f32.
cudaError_t count_ties(const void* x, const void* y, float* ties, DType dtype, const ReducedAxes& axes,
                       float* between, cudaStream_t stream);

/// dx[i] = dy[r] / ties[r] where x[i] equals y[r], else 0, for every i of a walk over y, dy and ties alike.
cudaError_t spread_to_ties(const void* dy, const void* x, const void* y, const float* ties, void* dx,
                           DType dtype, const LongWalk<1>& walk, cudaStream_t stream);

}  // namespace telar::cuda
