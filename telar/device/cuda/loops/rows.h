#pragma once

#include <algorithm>

#include "telar/device/cuda/loops/launch.h"

// Included by the files in this folder alone, like launch.h.
namespace telar::cuda {

#ifdef __CUDACC__

/// A block, or a warp of it, for each row.
template <int kLanes, typename T, typename Term, typename Combine, typename Apply>
__global__ void each_row(int64_t rows, int64_t length, T start, Term term, Combine combine, Apply apply) {
  constexpr int kGroups = kThreads / kLanes;
  __shared__ T whole[kGroups];
  const int group = static_cast<int>(threadIdx.x) / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * kGroups; first < rows;
       first += static_cast<int64_t>(gridDim.x) * kGroups) {
    const int64_t row = first + group;
    T value = start;
    if (row < rows)
      for (int64_t i = lane; i < length; i += kLanes) value = combine(value, term(row, i));
    if constexpr (kLanes == 32) {
      using Reduce = cub::WarpReduce<T>;
      __shared__ typename Reduce::TempStorage storage[kGroups];
      value = Reduce(storage[group]).Reduce(value, combine);
    } else {
      using Reduce = cub::BlockReduce<T, kThreads>;
      __shared__ typename Reduce::TempStorage storage;
      value = Reduce(storage).Reduce(value, combine);
    }
    if (lane == 0) whole[group] = value;
    __syncthreads();
    value = whole[group];
    if (row < rows)
      for (int64_t i = lane; i < length; i += kLanes) apply(row, i, value);
    __syncthreads();
  }
}

#endif

/// A row by one thread.
template <typename T, typename Term, typename Combine, typename Apply>
struct WholeRow {
  int64_t length;
  T start;
  Term term;
  Combine combine;
  Apply apply;

  TELAR_GPU void operator()(int64_t row) const {
    T value = start;
    for (int64_t i = 0; i < length; ++i) value = combine(value, term(row, i));
    for (int64_t i = 0; i < length; ++i) apply(row, i, value);
  }
};

/// For every row r: v = start ∘ term(r, 0) ∘ … ∘ term(r, length − 1) with ∘ = combine, associative and commutative but for rounding; then
/// apply(r, i, v) for every i, by the thread that made term(r, i), and after all terms of the row: it may write over what they read.
/// T: a float, or a struct of some, with no constructor. `beside`: whether it is elements of neighbouring rows that lie beside each other.
template <typename T, typename Term, typename Combine, typename Apply>
cudaError_t map_rows(int64_t rows, int64_t length, [[maybe_unused]] bool beside, cudaStream_t stream, T start,
                     Term term, Combine combine, Apply apply) {
  if (rows <= 0) return cudaSuccess;
#ifdef __CUDACC__
  constexpr int64_t kMostBlocks = 1 << 20;
  constexpr int64_t kShort = 1024;  // a warp is enough
  if (!beside && length <= kShort) {
    const int64_t blocks = std::min<int64_t>((rows + kThreads / 32 - 1) / (kThreads / 32), kMostBlocks);
    each_row<32>
        <<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(rows, length, start, term, combine, apply);
    return cudaGetLastError();
  }
  if (!beside) {
    each_row<kThreads><<<static_cast<unsigned>(std::min(rows, kMostBlocks)), kThreads, 0, stream>>>(
        rows, length, start, term, combine, apply);
    return cudaGetLastError();
  }
#endif
  return for_each(rows, stream, WholeRow<T, Term, Combine, Apply>{length, start, term, combine, apply});
}

}  // namespace telar::cuda
