#pragma once

#include <algorithm>

#include "telar/device/cuda/loops/launch.h"

// Include only from files in this folder, like launch.h.
namespace telar::cuda {

struct NumberOfRow {
  const float* each;
  TELAR_GPU double operator()(int64_t, int64_t row) const { return static_cast<double>(each[row]); }
};

#ifdef __CUDACC__

/// Distributes the rows over groups of kLanes threads in all blocks of kBlock threads.
template <int kBlock, int kLanes, typename T, typename Term, typename Combine, typename Apply>
__device__ void take_rows(int64_t rows, int64_t length, T start, const Term& term, const Combine& combine,
                          const Apply& apply) {
  constexpr int kGroups = kBlock / kLanes;
  __shared__ T whole[kGroups];
  const int group = static_cast<int>(threadIdx.x) / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * kGroups; first < rows;
       first += static_cast<int64_t>(gridDim.x) * kGroups) {
    const int64_t row = first + group;
    const T value = reduce_terms<kBlock, kLanes>(row, row < rows, length, start, term, combine);
    if (lane == 0) whole[group] = value;
    __syncthreads();
    if (row < rows)
      for (int64_t i = lane; i < length; i += kLanes) apply(row, i, whole[group]);
    __syncthreads();
  }
}

/// A block or a warp for each row.
template <int kLanes, typename T, typename Term, typename Combine, typename Apply>
__global__ void each_row(int64_t rows, int64_t length, T start, Term term, Combine combine, Apply apply) {
  take_rows<kThreads, kLanes>(rows, length, start, term, combine, apply);
}

/// The threads of the single block of each_row_and_sum, and of each of its rows.
inline constexpr int kThreadsOfOne = 1024;
inline constexpr int kLanesOfOne = 4;

/// A single block for all rows, and then for the sum of the numbers that they wrote to `each`.
template <typename T, typename Term, typename Combine, typename Apply, typename Finish>
__global__ void __launch_bounds__(kThreadsOfOne)
    each_row_and_sum(int64_t rows, int64_t length, T start, Term term, Combine combine, Apply apply,
                     const float* each, Finish finish) {
  take_rows<kThreadsOfOne, kLanesOfOne>(rows, length, start, term, combine, apply);
  const double sum =
      reduce_terms<kThreadsOfOne, kThreadsOfOne>(0, true, rows, 0.0, NumberOfRow{each}, SumInDouble());
  if (threadIdx.x == 0) finish(0, sum);
}

#endif

/// Computes a row in one thread.
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

/// For every row r: v = start ∘ term(r, 0) ∘ … ∘ term(r, length − 1) with ∘ = combine, associative and
/// commutative except for rounding. Then calls apply(r, i, v) for every i, in the thread that computed
/// term(r, i) and after all terms of the row. So apply may overwrite the operands of term. T: a float or a
/// struct of floats, without constructor. `beside`: whether elements of neighbouring rows are adjacent in
/// memory, instead of those of one row.
template <typename T, typename Term, typename Combine, typename Apply>
cudaError_t map_rows(int64_t rows, int64_t length, [[maybe_unused]] bool beside, cudaStream_t stream, T start,
                     Term term, Combine combine, Apply apply) {
  if (rows <= 0) return cudaSuccess;
#ifdef __CUDACC__
  constexpr int64_t kMostBlocks = 1 << 20;
  constexpr int64_t kShort = 1024;  // one warp suffices
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

/// As map_rows, for rows that are stored one after the other. Then calls finish(0, Σ each[r]), with the sum
/// in double over one number that apply() writes for each row. A few short rows need only one launch.
template <typename T, typename Term, typename Combine, typename Apply, typename Finish>
cudaError_t map_rows_and_sum(int64_t rows, int64_t length, cudaStream_t stream, T start, Term term,
                             Combine combine, Apply apply, const float* each, Finish finish) {
#ifdef __CUDACC__
  constexpr int64_t kMostRows = 1024;
  constexpr int64_t kMostLength = 128;
  // So few that one multiprocessor reads them all before a second launch would begin.
  constexpr int64_t kMostValues = 1 << 14;
  if (rows <= kMostRows && length <= kMostLength && rows * length <= kMostValues) {
    each_row_and_sum<<<1, kThreadsOfOne, 0, stream>>>(rows, length, start, term, combine, apply, each,
                                                      finish);
    return cudaGetLastError();
  }
#endif
  const cudaError_t status = map_rows(rows, length, false, stream, start, term, combine, apply);
  if (status != cudaSuccess) return status;
  return reduce(1, rows, stream, 0.0, NumberOfRow{each}, SumInDouble(), finish);
}

}  // namespace telar::cuda
