#pragma once

#include <driver_types.h>

#include <cstdint>

#include "telar/device/cuda/loops/pieces.h"

// Loops of ours (see launch.h): each function tells a stream to do it. All numbers are f32, labels i32. A
// label that is no class makes NaN of what is computed of its row.
namespace telar::cuda {

/// Rows of a batch, each with a number for each class.
struct Classes {
  int64_t rows = 1;
  int64_t classes = 1;
};

/// Where a sum goes.
struct LossSum {
  float* to = nullptr;
  bool adding = false;  ///< to what is there, or else instead of it
};

/// The gradient of a loss, one number: one that is known, or one in the GPU's memory.
struct LossGradient {
  float known = 1;
  const float* found = nullptr;  ///< unless null, this one
};

/// log_probabilities = logits − log Σ e^logits in each row, over which they may be written; losses[r] = −(1 −
/// smoothing) · that of the row's label − smoothing · their mean; loss = Σ losses.
cudaError_t cross_entropy(const Classes& extents, float smoothing, const float* logits, const int32_t* labels,
                          LossSum loss, float* log_probabilities, float* losses, cudaStream_t stream);

/// dlogits = dloss · (e^log_probabilities − smoothing / classes − (1 − smoothing) of the label); may be
/// written over them.
cudaError_t cross_entropy_backward(const Classes& extents, float smoothing, const float* log_probabilities,
                                   const int32_t* labels, LossGradient dloss, float* dlogits,
                                   cudaStream_t stream);

/// loss = Σ (prediction − target)² / features over the one result of `pieces`; `between`: pieces.between()
/// numbers.
cudaError_t mean_squared_error(const Pieces& pieces, int64_t features, const float* prediction,
                               const float* target, LossSum loss, float* between, cudaStream_t stream);

/// dprediction = 2 · dloss / features · (prediction − target); may be written over either.
cudaError_t mean_squared_error_backward(int64_t count, int64_t features, const float* prediction,
                                        const float* target, LossGradient dloss, float* dprediction,
                                        cudaStream_t stream);

/// correct = rows whose label has one of the k largest logits, the earlier class first among equals. `hits`:
/// a number for each row. A label that is no class is not correct.
cudaError_t top_k_correct(const Classes& extents, int64_t k, const float* logits, const int32_t* labels,
                          LossSum correct, float* hits, cudaStream_t stream);

}  // namespace telar::cuda
