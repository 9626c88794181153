#pragma once

#include <driver_types.h>

#include <cstdint>

#include "telar/core/dtype.h"
#include "telar/device/cuda/loops/channels.h"

// GPU loops (see launch.h). Each function enqueues its work on a stream. x, y, dy and dx have one type, f32
// or bf16, and one layout; another type is an error (cudaErrorInvalidValue). Everything else is f32. With x̂
// = (x − mean) · inverse, where inverse is 1 / √(variance + epsilon) of the channel:
//   y = scale · x̂ + shift, or, with a ReLU, the larger of that and 0.
namespace telar::cuda {

/// Numbers for each channel, [C]. All arrays begin at multiples of 16 bytes, and of 32 when C is a multiple
/// of 8.
struct Normalisation {
  const float* mean = nullptr;
  const float* inverse = nullptr;
  const float* scale = nullptr;
  const float* shift = nullptr;  ///< read when y is computed, or recomputed for a ReLU
};

/// Size of the memory `pieces`, in f32 numbers, for batch_statistics, part_statistics and batch_norm_sums.
int64_t batch_norm_pieces(const Channels& of);

/// Results computed from x's statistics, [C] each.
struct BatchStatisticsMemory {
  float* mean = nullptr;
  float* variance = nullptr;  ///< for running averages
  // Kept for the backward pass.
  float* kept_mean = nullptr;
  float* kept_inverse = nullptr;
  float* kept_shift = nullptr;  ///< a copy of `shift`
  bool biased = false;          ///< the variance is divided by the number of values, not by one less
};
cudaError_t batch_statistics(const void* x, DType dtype, const Channels& of, float epsilon,
                             const float* shift, float* pieces, const BatchStatisticsMemory& to,
                             cudaStream_t stream);

/// Computes the rest of `to` when kept_mean and kept_inverse exist already. The variance is derived from its
/// inverse root.
cudaError_t statistics_of_kept(const Channels& of, float epsilon, const float* shift,
                               const BatchStatisticsMemory& to, cudaStream_t stream);

/// statistics: [2·C + 1]: the means, Σ (x − mean)², and the number of values in a channel.
cudaError_t part_statistics(const void* x, DType dtype, const Channels& of, float* pieces, float* statistics,
                            cudaStream_t stream);

/// inverse[c] = 1 / √(variance[c] + epsilon).
cudaError_t inverse_deviations(const float* variance, float epsilon, int64_t channels, float* inverse,
                               cudaStream_t stream);

/// Computes y from x; y may be x.
cudaError_t normalise(const void* x, DType dtype, const Channels& of, const Normalisation& by, bool relu,
                      void* y, cudaStream_t stream);

/// Gradients of scale and shift, [C] each. `both`, if not null: [2·C], shift first.
struct BatchNormGradients {
  float* scale = nullptr;
  float* shift = nullptr;
  float* both = nullptr;
};
/// Σ dy · x̂ and Σ dy. With a ReLU, only dy where y > 0 counts.
cudaError_t batch_norm_sums(const void* x, const void* dy, DType dtype, const Channels& of,
                            const Normalisation& by, bool relu, float* pieces, const BatchNormGradients& to,
                            cudaStream_t stream);

/// dx = scale · inverse · (dy − factor · (Σ dy + x̂ · Σ dy·x̂)), where `factor` is 1 / the number of values
/// in a channel; with a ReLU, dy counts where y > 0. dx may be dy.
cudaError_t batch_norm_slopes(const void* x, const void* dy, DType dtype, const Channels& of,
                              const Normalisation& by, bool relu, const float* scale_sums,
                              const float* shift_sums, float factor, void* dx, cudaStream_t stream);

}  // namespace telar::cuda
