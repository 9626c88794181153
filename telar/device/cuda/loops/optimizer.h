#pragma once

#include <driver_types.h>

#include <cstdint>

#include "telar/device/update_rules.h"

// Loops of ours (see launch.h): each function tells a stream to do it.
namespace telar::cuda {

/// Flat memory of an update, f32. All of it lies at multiples of 16 bytes, and `count` is a multiple of 4.
struct UpdateMemory {
  float* parameters = nullptr;
  const float* gradients = nullptr;
  float* states[2] = {};  ///< what the rule keeps, in the order of telar/graph/ops/update.h; null without
  int64_t count = 0;
  const float* loss = nullptr;  ///< nothing is updated when it is NaN or infinite; may be null
  /// Becomes `mark` when the loss or a gradient is NaN or infinite. With a loss nothing is updated when it
  /// holds another mark, one of an earlier update: a non-finite value of this one is found while it runs, and
  /// must not stop a part of it.
  float* non_finite = nullptr;
  float mark = 1;  ///< not 0
};

/// One step of a rule. SGD without momentum has no state; RMSprop has one, and with momentum two.
cudaError_t update(const SgdRule& rule, const UpdateMemory& memory, cudaStream_t stream);
cudaError_t update(const AdamRule& rule, const UpdateMemory& memory, cudaStream_t stream);
cudaError_t update(const RmspropRule& rule, const UpdateMemory& memory, cudaStream_t stream);
cudaError_t update(const AdagradRule& rule, const UpdateMemory& memory, cudaStream_t stream);
cudaError_t update(const RunningAverageRule& rule, const UpdateMemory& memory, cudaStream_t stream);

/// Numbers of the memory that sum_squares needs beside its result, f64.
inline constexpr int64_t kSquarePieces = 1024;
/// sum[0] = Σ x[i]² in f64, in the same order every time. x and `count` as UpdateMemory says.
cudaError_t sum_squares(const float* x, int64_t count, double* pieces, double* sum, cudaStream_t stream);

}  // namespace telar::cuda
