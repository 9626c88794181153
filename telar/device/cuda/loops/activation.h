#pragma once

#include <driver_types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "telar/core/dtype.h"

// GPU loops (see launch.h). Each function enqueues its work on a stream. Types are f32 and bf16; others are
// an error (cudaErrorInvalidValue).
namespace telar::cuda {

/// The loops of an activation.
struct ActivationLoop {
  std::string name;  ///< of the operation (telar/graph/ops/activation.h)
  /// y[i] = f(x[i]); y may be x.
  cudaError_t (*forward)(const void* x, void* y, DType dtype, int64_t count, cudaStream_t stream);
  /// dx[i] = dy[i] · f'(…), computed from data[i], the input or the output as the operation says. Where a
  /// ReLU's output is 0, dx is 0 even if dy is NaN. dx may be dy.
  cudaError_t (*backward)(const void* dy, const void* data, void* dx, DType dtype, int64_t count,
                          cudaStream_t stream);
};
std::vector<ActivationLoop> activation_loops();

/// y[i] = max(0, x[i]), and NaN for NaN; y may be x.
cudaError_t rectify(const void* x, void* y, DType dtype, int64_t count, cudaStream_t stream);

/// y[i] = factor · x[i]; y may be x.
cudaError_t scale_values(const void* x, float factor, void* y, DType dtype, int64_t count,
                         cudaStream_t stream);

}  // namespace telar::cuda
