#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>

#include "telar/core/dtype.h"

// How our loops run on a GPU. A function object computes one index, and the functions below enqueue it for
// every index. Include only from files in this folder. nvcc compiles the loops to kernels. Any other compiler
// makes plain loops over host memory, which the tests run. So everything except the launches is tested
// without a GPU.
#ifdef __CUDACC__
#include <cub/cub.cuh>
/// Required before each function of a function object, and in a lambda: [=] TELAR_GPU(int64_t i) { … }. (nvcc
/// does not allow such a lambda inside a generic lambda.)
#define TELAR_GPU __device__
#else
#define TELAR_GPU
#include <functional>
namespace telar::test {
void on_stream(cudaStream_t stream, std::function<void()> work);  // the tests' stand-in for a stream
}
#endif

namespace telar::cuda {

TELAR_GPU inline float to_float(float value) { return value; }
TELAR_GPU inline float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }
TELAR_GPU inline void store(float& place, float value) { place = value; }
TELAR_GPU inline void store(__nv_bfloat16& place, float value) { place = __float2bfloat16(value); }

/// Calls f(T()), where T is float or __nv_bfloat16 for `dtype`; another type is an error. Use it only to
/// choose a function template: [&](auto type) { return scale<decltype(type)>(…); }.
template <typename F>
cudaError_t with_type(DType dtype, const F& f) {
  if (dtype == DType::f32) return f(float());
  if (dtype == DType::bf16) return f(__nv_bfloat16());
  return cudaErrorInvalidValue;
}

inline constexpr int kThreads = 256;  ///< threads of a block

#ifdef __CUDACC__

template <typename F>
// f stays in parameter memory: threads do not copy it.
__global__ void each_index(int64_t count, const __grid_constant__ F f) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) f(i);
}

/// start ∘ term(result, 0) ∘ … ∘ term(result, length − 1), or `start` if the result does not exist. Each
/// group of kLanes threads in a block of kBlock computes one result and returns it in its first thread. All
/// threads of the block must call this function, and synchronize before the next call.
template <int kBlock, int kLanes, typename T, typename Term, typename Combine>
__device__ T reduce_terms(int64_t result, bool is_there, int64_t length, T start, const Term& term,
                          const Combine& combine) {
  const int group = static_cast<int>(threadIdx.x) / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  T value = start;
  if (is_there)
    for (int64_t i = lane; i < length; i += kLanes) value = combine(value, term(result, i));
  if constexpr (kLanes < kBlock) {
    using Reduce = cub::WarpReduce<T, kLanes>;
    __shared__ typename Reduce::TempStorage storage[kBlock / kLanes];
    return Reduce(storage[group]).Reduce(value, combine);
  } else {
    using Reduce = cub::BlockReduce<T, kBlock>;
    __shared__ typename Reduce::TempStorage storage;
    return Reduce(storage).Reduce(value, combine);
  }
}

/// Computes each result with a block or a warp.
template <int kLanes, typename T, typename Term, typename Combine, typename Finish>
__global__ void each_reduction(int64_t results, int64_t length, T start, Term term, Combine combine,
                               Finish finish) {
  constexpr int kGroups = kThreads / kLanes;
  const int group = static_cast<int>(threadIdx.x) / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * kGroups; first < results;
       first += static_cast<int64_t>(gridDim.x) * kGroups) {
    const int64_t result = first + group;
    const T value = reduce_terms<kThreads, kLanes>(result, result < results, length, start, term, combine);
    if (lane == 0 && result < results) finish(result, value);
    __syncthreads();
  }
}

/// The most columns of a block of each_column: the threads of a warp, which read neighbouring columns.
inline constexpr int kMostLanes = 32;

/// An odd number of words, so that neighbours in shared memory begin in different banks.
template <typename T>
struct Padded {
  T value;
  float odd[1 + sizeof(T) / sizeof(float) % 2];
};

/// Each block computes `lanes` neighbouring columns (a power of two) of a piece. Its other threads share the
/// rows.
template <typename T, typename Term, typename Combine, typename Finish>
__global__ void each_column(int64_t rows, int64_t columns, int lanes, T start, Term term, Combine combine,
                            Finish finish) {
  __shared__ Padded<T> values[kThreads];
  const auto thread = static_cast<int>(threadIdx.x);
  const int64_t column = static_cast<int64_t>(blockIdx.x) * lanes + thread % lanes;
  const int64_t length = (rows + gridDim.y - 1) / gridDim.y;
  const int64_t first = static_cast<int64_t>(blockIdx.y) * length;
  const int64_t last = first + length < rows ? first + length : rows;
  T value = start;
  if (column < columns) {
#pragma unroll 4
    for (int64_t row = first + thread / lanes; row < last; row += kThreads / lanes)
      value = combine(value, term(row, column));
  }
  values[thread].value = value;
  __syncthreads();
  for (int half = kThreads / 2; half >= lanes; half /= 2) {
    if (thread < half) values[thread].value = combine(values[thread].value, values[thread + half].value);
    __syncthreads();
  }
  if (thread < lanes && column < columns)
    finish(static_cast<int64_t>(blockIdx.y), column, values[thread].value);
}

#endif

/// Calls f(i) for every i below `count`, in any order.
template <typename F>
cudaError_t for_each(int64_t count, cudaStream_t stream, F f) {
  if (count <= 0) return cudaSuccess;
#ifdef __CUDACC__
  const int64_t blocks = std::min<int64_t>((count + kThreads - 1) / kThreads, 1 << 20);
  each_index<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(count, f);
  return cudaGetLastError();
#else
  test::on_stream(stream, [=] {
    for (int64_t i = 0; i < count; ++i) f(i);
  });
  return cudaGetLastError();
#endif
}

/// Calls finish(r, start ∘ term(r, 0) ∘ … ∘ term(r, length − 1)) for every r below `results`, with ∘ =
/// combine, which is associative and commutative except for rounding. The order of the terms depends on
/// `results` and `length` only. T: a float or a struct of floats.
template <typename T, typename Term, typename Combine, typename Finish>
cudaError_t reduce(int64_t results, int64_t length, cudaStream_t stream, T start, Term term, Combine combine,
                   Finish finish) {
  if (results <= 0) return cudaSuccess;
#ifdef __CUDACC__
  constexpr int64_t kMostBlocks = 1 << 20;
  // Most terms for a warp: with few results, threads are idle anyway.
  const int64_t enough = results < 1024 ? 64 : 512;
  if (length <= enough) {
    const int64_t blocks = std::min<int64_t>((results + kThreads / 32 - 1) / (kThreads / 32), kMostBlocks);
    each_reduction<32><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(results, length, start, term,
                                                                               combine, finish);
  } else {
    each_reduction<kThreads><<<static_cast<unsigned>(std::min(results, kMostBlocks)), kThreads, 0, stream>>>(
        results, length, start, term, combine, finish);
  }
  return cudaGetLastError();
#else
  test::on_stream(stream, [=] {
    for (int64_t r = 0; r < results; ++r) {
      T value = start;
      for (int64_t i = 0; i < length; ++i) value = combine(value, term(r, i));
      finish(r, value);
    }
  });
  return cudaGetLastError();
#endif
}

/// Reduces the columns of a matrix whose rows are divided into `pieces` (at most 65535). Calls finish(p, c,
/// start ∘ term(r, c) ∘ …) over the rows r of piece p. The order depends on `rows`, `columns` and `pieces`
/// only. `start` and T are as for reduce(); a piece may be empty. Neighbouring threads compute neighbouring
/// columns, which suits row-major memory.
template <typename T, typename Term, typename Combine, typename Finish>
cudaError_t reduce_columns(int64_t rows, int64_t columns, int64_t pieces, cudaStream_t stream, T start,
                           Term term, Combine combine, Finish finish) {
  if (columns <= 0 || pieces <= 0) return cudaSuccess;
#ifdef __CUDACC__
  int lanes = 1;
  while (lanes < kMostLanes && lanes < columns) lanes *= 2;
  const dim3 blocks(static_cast<unsigned>((columns + lanes - 1) / lanes), static_cast<unsigned>(pieces));
  each_column<<<blocks, kThreads, 0, stream>>>(rows, columns, lanes, start, term, combine, finish);
  return cudaGetLastError();
#else
  test::on_stream(stream, [=] {
    const int64_t length = (rows + pieces - 1) / pieces;
    for (int64_t p = 0; p < pieces; ++p) {
      for (int64_t c = 0; c < columns; ++c) {
        T value = start;
        for (int64_t r = p * length; r < std::min(rows, (p + 1) * length); ++r)
          value = combine(value, term(r, c));
        finish(p, c, value);
      }
    }
  });
  return cudaGetLastError();
#endif
}

/// Sums in f32, for reduce().
struct Sum {
  TELAR_GPU float operator()(float a, float b) const { return a + b; }
};
struct SumInDouble {
  TELAR_GPU double operator()(double a, double b) const { return a + b; }
};

}  // namespace telar::cuda
