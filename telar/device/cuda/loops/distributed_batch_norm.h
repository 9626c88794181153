#pragma once

#include <driver_types.h>

#include <cstdint>

// GPU loops (see launch.h). Each function enqueues its work on a stream. They combine values that members of
// a cluster have exchanged, f32.
namespace telar::cuda {

/// Statistics of all members' values.
struct CombinedStatistics {
  float* statistics = nullptr;  ///< [2·C + 1]: means, biased variances, number of values in a channel
  float* mean = nullptr;        ///< [C]
  float* variance = nullptr;    ///< [C], for running averages
  bool biased = false;          ///< it is divided by the number of values, not by one less
};
/// Combines the rows of part_statistics (batch_norm.h), [members, 2·C + 1], in their order, in f64.
cudaError_t combine_statistics(const float* rows, int64_t members, int64_t channels,
                               const CombinedStatistics& to, cudaStream_t stream);

/// means[i] = Σ rows[m, i] / count[0]. rows: [members, length]; means: [length].
cudaError_t mean_over_members(const float* rows, int64_t members, int64_t length, const float* count,
                              float* means, cudaStream_t stream);

}  // namespace telar::cuda
