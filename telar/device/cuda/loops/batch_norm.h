#pragma once

#include <driver_types.h>

#include <cstdint>

#include "telar/core/dtype.h"
#include "telar/device/cuda/loops/channels.h"

// Loops of ours (see launch.h): each function tells a stream to do it. Types of x, y, dy and dx, which lie
// alike, are f32 and bf16; another is an error (cudaErrorInvalidValue). Everything else is f32. With x̂ = (x
// − mean) · inverse, where inverse is 1 / √(variance + epsilon) of the channel:
//   y = scale · x̂ + shift, or, with a ReLU, max(0, that).
namespace telar::cuda {

/// Numbers of each channel, [C]. All lie at multiples of 16 bytes, and of 32 where C is a multiple of 8.
struct Normalisation {
  const float* mean = nullptr;
  const float* inverse = nullptr;
  const float* scale = nullptr;
  const float* shift = nullptr;  ///< read where y is computed, or computed again for a ReLU
};

/// Numbers (f32) of the memory `pieces` that batch_statistics, part_statistics and batch_norm_sums need.
int64_t batch_norm_pieces(const Channels& of);

/// What becomes of x's statistics, [C] each.
struct BatchStatisticsMemory {
  float* mean = nullptr;
  float* unbiased_variance = nullptr;
  // What the backward pass is computed with.
  float* kept_mean = nullptr;
  float* kept_inverse = nullptr;
  float* kept_shift = nullptr;  ///< a copy of `shift`
};
cudaError_t batch_statistics(const void* x, DType dtype, const Channels& of, float epsilon,
                             const float* shift, float* pieces, const BatchStatisticsMemory& to,
                             cudaStream_t stream);

/// The rest of `to` where kept_mean and kept_inverse are there already: the variance is taken from its
/// inverse root.
cudaError_t statistics_of_kept(const Channels& of, float epsilon, const float* shift,
                               const BatchStatisticsMemory& to, cudaStream_t stream);

/// statistics: [2·C + 1]: the means, Σ (x − mean)², and how many values a channel has.
cudaError_t part_statistics(const void* x, DType dtype, const Channels& of, float* pieces, float* statistics,
                            cudaStream_t stream);

/// inverse[c] = 1 / √(variance[c] + epsilon).
cudaError_t inverse_deviations(const float* variance, float epsilon, int64_t channels, float* inverse,
                               cudaStream_t stream);

/// y of x, which may be y.
cudaError_t normalise(const void* x, DType dtype, const Channels& of, const Normalisation& by, bool relu,
                      void* y, cudaStream_t stream);

/// Gradients of scale and shift, [C] each, and, unless null, both: [2·C], of shift first.
struct BatchNormGradients {
  float* scale = nullptr;
  float* shift = nullptr;
  float* both = nullptr;
};
/// Σ dy · x̂ and Σ dy, where, with a ReLU, dy counts where y > 0.
cudaError_t batch_norm_sums(const void* x, const void* dy, DType dtype, const Channels& of,
                            const Normalisation& by, bool relu, float* pieces, const BatchNormGradients& to,
                            cudaStream_t stream);

/// dx = scale · inverse · (dy − factor · (Σ dy + x̂ · Σ dy·x̂)), where `factor` is 1 / the number of values
/// in a channel; with a ReLU, dy counts where y > 0. dx may be dy.
cudaError_t batch_norm_slopes(const void* x, const void* dy, DType dtype, const Channels& of,
                              const Normalisation& by, bool relu, const float* scale_sums,
                              const float* shift_sums, float factor, void* dx, cudaStream_t stream);

}  // namespace telar::cuda
