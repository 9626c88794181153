#pragma once

#include <driver_types.h>

#include <cstddef>
#include <cstdint>

#include "telar/core/dtype.h"

// Loops of ours (see launch.h): each function tells a stream to do it. Types are f32 and bf16; another is an
// error (cudaErrorInvalidValue).
namespace telar::cuda {

/// Tokens that are looked up in a table of `rows` × `features`.
struct Lookup {
  int64_t tokens = 1;
  int64_t rows = 1;
  int64_t features = 1;
};

/// y[t] = table[token[t]], in y's type; of a token that is not in the table a row of NaN.
cudaError_t look_up(const Lookup& lookup, const int32_t* tokens, const void* table, DType from, void* y,
                    DType to, cudaStream_t stream);

/// Bytes of memory, aligned to 256, that look_up_backward needs.
cudaError_t look_up_backward_memory(const Lookup& lookup, size_t& bytes);

/// dtable[r] = Σ dy[t] over the t with token[t] = r, in f32, in an order that depends on the tokens alone.
/// One that is not in the table is left out. dtable: f32.
cudaError_t look_up_backward(const Lookup& lookup, const int32_t* tokens, const void* dy, DType dtype,
                             float* dtable, std::byte* memory, size_t bytes, cudaStream_t stream);

}  // namespace telar::cuda
