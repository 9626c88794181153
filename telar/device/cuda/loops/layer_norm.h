#pragma once

#include <driver_types.h>

#include <cstdint>

#include "telar/core/dtype.h"
#include "telar/device/cuda/loops/pieces.h"

// GPU loops (see launch.h). Each function enqueues its work on a stream. x, y, dy, dx: rows × features of f32
// or bf16, computed in f32; other types are an error (cudaErrorInvalidValue). gamma, beta, dgamma, dbeta: f32
// [features]; mean, variance (biased): f32 [rows].
namespace telar::cuda {

struct LayerNorm {
  int64_t rows = 1;
  int64_t features = 1;
  float epsilon = 0;
};

/// y = (x − mean) / √(variance + ε) · gamma + beta; y may be x.
cudaError_t layer_norm(const LayerNorm& norm, const void* x, const float* gamma, const float* beta, void* y,
                       float* mean, float* variance, DType dtype, cudaStream_t stream);

/// Computes dx; dx may be dy.
cudaError_t layer_norm_backward(const LayerNorm& norm, const void* x, const void* dy, const float* gamma,
                                const float* mean, const float* variance, void* dx, DType dtype,
                                cudaStream_t stream);

/// dgamma = Σ dy · (x − mean) / √(variance + ε) and dbeta = Σ dy over the rows. `between`: 2 ·
/// pieces.between() numbers, with pieces of `features` results and `rows` terms.
cudaError_t layer_norm_sums(const LayerNorm& norm, const Pieces& pieces, const void* x, const void* dy,
                            const float* mean, const float* variance, float* dgamma, float* dbeta,
                            float* between, DType dtype, cudaStream_t stream);

}  // namespace telar::cuda
