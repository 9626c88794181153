#include "telar/device/cuda/kernels/loops.h"

#include <cuda_bf16.h>

#include "telar/device/cuda/transposition.h"

namespace telar::cuda {

namespace {

constexpr int kThreads = 256;

__device__ float to_float(float value) { return value; }
__device__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ void store(float& place, float value) { place = value; }
__device__ void store(__nv_bfloat16& place, float value) { place = __float2bfloat16(value); }

/// Blocks for one element a thread, where there are not too many: loops go on by the whole grid.
unsigned blocks_for(int64_t count, int64_t most) {
  const int64_t blocks = (count + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks < most ? blocks : most);
}

__device__ int64_t first_index() { return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ int64_t index_step() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

template <typename In, typename Out>
__global__ void convert_loop(const In* x, Out* y, int64_t count) {
  for (int64_t i = first_index(); i < count; i += index_step()) store(y[i], to_float(x[i]));
}

template <typename T, typename Index>
__global__ void transpose_loop(const T* x, T* y, Index elements, Index rows, Index columns) {
  for (auto i = static_cast<Index>(first_index()); i < elements; i += static_cast<Index>(index_step()))
    y[i] = x[transposed_source(i, rows, columns)];
}

/// Each block leaves the sum of its elements. The order of the additions depends on `count` and the grid alone.
template <typename In, typename Out>
__global__ void sum_loop(const In* x, int64_t count, Out* sums) {
  __shared__ float parts[kThreads];
  float sum = 0;
  for (int64_t i = first_index(); i < count; i += index_step()) sum += to_float(x[i]);
  parts[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) store(sums[blockIdx.x], parts[0]);
}

template <typename T>
cudaError_t sum_in_two_steps(const void* x, int64_t count, float* pieces, void* y, cudaStream_t stream) {
  const unsigned blocks = blocks_for(count, kMostPieces);
  sum_loop<<<blocks, kThreads, 0, stream>>>(static_cast<const T*>(x), count, pieces);
  sum_loop<<<1, kThreads, 0, stream>>>(static_cast<const float*>(pieces), static_cast<int64_t>(blocks),
                                       static_cast<T*>(y));
  return cudaGetLastError();
}

template <typename In, typename Out>
cudaError_t convert_to(const void* x, void* y, int64_t count, cudaStream_t stream) {
  convert_loop<<<blocks_for(count, 1 << 20), kThreads, 0, stream>>>(static_cast<const In*>(x),
                                                                    static_cast<Out*>(y), count);
  return cudaGetLastError();
}

template <typename T, typename Index>
cudaError_t transpose_counted(const void* x, void* y, int64_t elements, int64_t rows, int64_t columns,
                              cudaStream_t stream) {
  transpose_loop<<<blocks_for(elements, 1 << 20), kThreads, 0, stream>>>(
      static_cast<const T*>(x), static_cast<T*>(y), static_cast<Index>(elements), static_cast<Index>(rows),
      static_cast<Index>(columns));
  return cudaGetLastError();
}

template <typename T>
cudaError_t transpose_elements(const void* x, void* y, int64_t elements, int64_t rows, int64_t columns,
                               cudaStream_t stream) {
  // The index goes beyond the last element by the whole grid, at most 2²⁸.
  if (elements <= INT32_MAX) return transpose_counted<T, uint32_t>(x, y, elements, rows, columns, stream);
  return transpose_counted<T, int64_t>(x, y, elements, rows, columns, stream);
}

}  // namespace

cudaError_t convert_values(const void* x, DType from, void* y, DType to, int64_t count, cudaStream_t stream) {
  if (from == DType::f32 && to == DType::f32) return convert_to<float, float>(x, y, count, stream);
  if (from == DType::f32 && to == DType::bf16) return convert_to<float, __nv_bfloat16>(x, y, count, stream);
  if (from == DType::bf16 && to == DType::f32) return convert_to<__nv_bfloat16, float>(x, y, count, stream);
  if (from == DType::bf16 && to == DType::bf16)
    return convert_to<__nv_bfloat16, __nv_bfloat16>(x, y, count, stream);
  return cudaErrorInvalidValue;
}

cudaError_t transpose_stack(const void* x, void* y, DType dtype, int64_t count, int64_t rows, int64_t columns,
                            cudaStream_t stream) {
  const int64_t elements = count * rows * columns;
  if (dtype == DType::f32) return transpose_elements<float>(x, y, elements, rows, columns, stream);
  if (dtype == DType::bf16) return transpose_elements<__nv_bfloat16>(x, y, elements, rows, columns, stream);
  return cudaErrorInvalidValue;
}

cudaError_t sum_values(const void* x, DType dtype, int64_t count, float* pieces, void* y,
                       cudaStream_t stream) {
  if (dtype == DType::f32) return sum_in_two_steps<float>(x, count, pieces, y, stream);
  if (dtype == DType::bf16) return sum_in_two_steps<__nv_bfloat16>(x, count, pieces, y, stream);
  return cudaErrorInvalidValue;
}

}  // namespace telar::cuda
