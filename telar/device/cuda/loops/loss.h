#pragma once

#include <driver_types.h>

#include <cstdint>

#include "telar/device/cuda/loops/pieces.h"

// GPU loops (see launch.h). Each function enqueues its work on a stream. All numbers are f32, labels i32. A
// label that is not a class makes the results of its row NaN.
namespace telar::cuda {

/// Rows of a batch, with one number for each class.
struct Classes {
  int64_t rows = 1;
  int64_t classes = 1;
};

/// The destination of a sum.
struct LossSum {
  float* to = nullptr;
  bool adding = false;  ///< true: added to the old value; false: replaces it
};

/// The gradient of a loss, one number: known when the graph is lowered, or in GPU memory.
struct LossGradient {
  float known = 1;
  const float* found = nullptr;  ///< used unless null
};

/// log_probabilities = logits − log Σ e^logits in each row; they may overwrite the logits. losses[r] = −(1 −
/// smoothing) · (log-probability of the label) − smoothing · (mean log-probability); loss = Σ losses.
cudaError_t cross_entropy(const Classes& extents, float smoothing, const float* logits, const int32_t* labels,
                          LossSum loss, float* log_probabilities, float* losses, cudaStream_t stream);

/// The same, without their sum.
cudaError_t cross_entropy_of_rows(const Classes& extents, float smoothing, const float* logits,
                                  const int32_t* labels, float* log_probabilities, float* losses,
                                  cudaStream_t stream);

/// dlogits = dloss · (e^log_probabilities − smoothing / classes − (1 − smoothing) of the label); may be
/// written over them.
cudaError_t cross_entropy_backward(const Classes& extents, float smoothing, const float* log_probabilities,
                                   const int32_t* labels, LossGradient dloss, float* dlogits,
                                   cudaStream_t stream);

/// The same with a gradient for each row.
cudaError_t cross_entropy_of_rows_backward(const Classes& extents, float smoothing,
                                           const float* log_probabilities, const int32_t* labels,
                                           const float* dlosses, float* dlogits, cudaStream_t stream);

/// loss = Σ (prediction − target)² / features. `pieces` has one result; `between`: pieces.between() numbers.
cudaError_t mean_squared_error(const Pieces& pieces, int64_t features, const float* prediction,
                               const float* target, LossSum loss, float* between, cudaStream_t stream);

/// dprediction = 2 · dloss / features · (prediction − target); it may overwrite either operand.
cudaError_t mean_squared_error_backward(int64_t count, int64_t features, const float* prediction,
                                        const float* target, LossGradient dloss, float* dprediction,
                                        cudaStream_t stream);

/// correct = the number of rows whose label has one of the k largest logits; of equal logits, the earlier
/// class counts first. A NaN counts before all numbers, but is never correct; nor is a label that is not a
/// class. `hits`: one number for each row.
cudaError_t top_k_correct(const Classes& extents, int64_t k, const float* logits, const int32_t* labels,
                          LossSum correct, float* hits, cudaStream_t stream);

}  // namespace telar::cuda
