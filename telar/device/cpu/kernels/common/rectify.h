#pragma once

#include <cstdint>

#include "telar/core/dtype.h"

namespace telar::cpu {

/// y = max(x, 0), and NaN for a NaN; y may be x. f32 or bf16, `bytes` of memory.
void rectify(DType dtype, int64_t bytes, const void* x, void* y);

/// dx = dy where y is above 0 or NaN, else 0; dx may be dy.
void rectify_gradient(DType dtype, int64_t bytes, const void* dy, const void* y, void* dx);

}  // namespace telar::cpu
