// Stands for the loops that are written in CUDA (telar/device/cuda/kernels/loops.cu).
#include "cuda/fakes.h"
#include "telar/device/cuda/kernels/loops.h"
#include "telar/device/cuda/transposition.h"

namespace telar::cuda {

using test::load;
using test::store;

cudaError_t convert_values(const void* x, DType from, void* y, DType to, int64_t count,
                           cudaStream_t /*stream*/) {
  for (size_t i = 0; i < static_cast<size_t>(count); ++i)
    store(y, to == DType::bf16, i, load(x, from == DType::bf16, i));
  return cudaSuccess;
}

cudaError_t transpose_stack(const void* x, void* y, DType dtype, int64_t count, int64_t rows, int64_t columns,
                            cudaStream_t /*stream*/) {
  const bool bf16 = dtype == DType::bf16;
  for (int64_t i = 0; i < count * rows * columns; ++i)
    store(y, bf16, static_cast<size_t>(i),
          load(x, bf16, static_cast<size_t>(transposed_source(i, rows, columns))));
  return cudaSuccess;
}

cudaError_t sum_values(const void* x, DType dtype, int64_t count, float* pieces, void* y,
                       cudaStream_t /*stream*/) {
  const bool bf16 = dtype == DType::bf16;
  for (size_t i = 0; i < kMostPieces; ++i) pieces[i] = 0;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) pieces[i % kMostPieces] += load(x, bf16, i);
  float sum = 0;
  for (size_t i = 0; i < kMostPieces; ++i) sum += pieces[i];
  store(y, bf16, 0, sum);
  return cudaSuccess;
}

}  // namespace telar::cuda
