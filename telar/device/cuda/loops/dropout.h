#pragma once

#include <driver_types.h>

#include <cstdint>

#include "telar/core/dtype.h"
#include "telar/graph/ops/dropout_rule.h"

// GPU loops (see launch.h). Each function enqueues its work on a stream.
namespace telar::cuda {

/// y = x with elements dropped according to telar/graph/ops/dropout_rule.h; y may be x. x, y: `samples` ×
/// `per_sample` of f32 or bf16; other types are an error (cudaErrorInvalidValue). sample: i32, two words for
/// each sample; random: i32 [4].
cudaError_t drop(const DropoutConstants& constants, const void* x, const int32_t* sample,
                 const int32_t* random, void* y, DType dtype, int64_t samples, int64_t per_sample,
                 cudaStream_t stream);

}  // namespace telar::cuda
