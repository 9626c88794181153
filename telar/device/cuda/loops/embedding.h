#pragma once

#include <driver_types.h>

#include <cstddef>
#include <cstdint>

#include "telar/core/dtype.h"

// GPU loops (see launch.h). Each function enqueues its work on a stream. Types are f32 and bf16; others are
// an error (cudaErrorInvalidValue).
namespace telar::cuda {

/// A look-up of `tokens` in a table of `rows` × `features`.
struct Lookup {
  int64_t tokens = 1;
  int64_t rows = 1;
  int64_t features = 1;
};

/// y[t] = table[token[t]], in y's type. For a token that is not in the table, the row is NaN.
cudaError_t look_up(const Lookup& lookup, const int32_t* tokens, const void* table, DType from, void* y,
                    DType to, cudaStream_t stream);

/// Size of the memory for look_up_backward in bytes; it must be aligned to 256.
cudaError_t look_up_backward_memory(const Lookup& lookup, size_t& bytes);

/// dtable[r] = Σ dy[t] over the t with token[t] = r, in f32. The order of summation depends on the tokens
/// only. Tokens that are not in the table are ignored. dtable: f32.
cudaError_t look_up_backward(const Lookup& lookup, const int32_t* tokens, const void* dy, DType dtype,
                             float* dtable, std::byte* memory, size_t bytes, cudaStream_t stream);

}  // namespace telar::cuda
