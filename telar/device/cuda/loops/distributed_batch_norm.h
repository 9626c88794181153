#pragma once

#include <driver_types.h>

#include <cstdint>

// Loops of ours (see launch.h): each function tells a stream to do it. What members of a cluster have
// exchanged, f32.
namespace telar::cuda {

/// What comes of all members' statistics.
struct CombinedStatistics {
  float* statistics = nullptr;         ///< [2·C + 1]: means, biased variances, how many values a channel has
  float* mean = nullptr;               ///< [C]
  float* unbiased_variance = nullptr;  ///< [C]
};
/// Of rows: [members, 2·C + 1] of part_statistics (batch_norm.h), in their order, in f64.
cudaError_t combine_statistics(const float* rows, int64_t members, int64_t channels,
                               const CombinedStatistics& to, cudaStream_t stream);

/// means[i] = Σ rows[m, i] / count[0]: rows: [members, length], means: [length].
cudaError_t mean_over_members(const float* rows, int64_t members, int64_t length, const float* count,
                              float* means, cudaStream_t stream);

}  // namespace telar::cuda
