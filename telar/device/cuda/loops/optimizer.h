#pragma once

#include <driver_types.h>

#include <cstdint>

#include "telar/device/update_rules.h"

// GPU loops (see launch.h). Each function enqueues its work on a stream.
namespace telar::cuda {

/// Flat memory of an update, f32. All arrays begin at multiples of 16 bytes, and `count` is a multiple of 4.
struct UpdateMemory {
  float* parameters = nullptr;
  const float* gradients = nullptr;
  float* states[2] = {};  ///< the rule's state, in the order of telar/graph/ops/update.h; null without
  int64_t count = 0;
  const float* loss = nullptr;  ///< if it is NaN or infinite, nothing is updated; may be null
  /// Set to `mark` when the loss or a gradient is NaN or infinite. With a loss, nothing is updated if it
  /// contains another mark, that of an earlier update. This update's own mark is set while it runs and must
  /// not stop the rest of it.
  float* non_finite = nullptr;
  float mark = 1;  ///< non-zero
};

/// One step of a rule. SGD without momentum has no state; RMSprop has one array, and two with momentum.
cudaError_t update(const SgdRule& rule, const UpdateMemory& memory, cudaStream_t stream);
cudaError_t update(const AdamRule& rule, const UpdateMemory& memory, cudaStream_t stream);
cudaError_t update(const RmspropRule& rule, const UpdateMemory& memory, cudaStream_t stream);
cudaError_t update(const AdagradRule& rule, const UpdateMemory& memory, cudaStream_t stream);
cudaError_t update(const RunningAverageRule& rule, const UpdateMemory& memory, cudaStream_t stream);

/// Size of the memory for sum_squares besides its result, in f64 numbers.
inline constexpr int64_t kSquarePieces = 1024;
/// sum[0] = Σ x[i]² in f64, always in the same order. x and `count` as in UpdateMemory.
cudaError_t sum_squares(const float* x, int64_t count, double* pieces, double* sum, cudaStream_t stream);

}  // namespace telar::cuda
