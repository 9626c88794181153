#pragma once

#include <driver_types.h>

#include <cstdint>

// GPU loops (see launch.h). Each function enqueues its work on a stream.
namespace telar::cuda {

/// Extents of both loops, as in telar/graph/ops/gather.h: x is [outer, extent, inner], what is gathered
/// [outer, items, inner].
struct Moves {
  int64_t outer = 1;
  int64_t items = 1;
  int64_t inner = 1;
  int64_t extent = 1;
  int64_t outer_indices = 1;   ///< the indices of place a are those of a mod outer_indices
  bool one_for_inner = false;  ///< whether there is one index for all inner places
};

/// y[a, m, b] = x[a, index of (a, m, b), b]; NaN if that index is out of range
cudaError_t gather(const float* x, const int32_t* indices, float* y, const Moves& moves, cudaStream_t stream);

/// y[a, k, b] = Σ updates[a, m, b] over the m whose index is k, in the order of m
cudaError_t scatter_add(const int32_t* indices, const float* updates, float* y, const Moves& moves,
                        cudaStream_t stream);

}  // namespace telar::cuda
