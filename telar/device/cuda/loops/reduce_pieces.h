#pragma once

#include <algorithm>

#include "telar/device/cuda/loops/launch.h"
#include "telar/device/cuda/loops/pieces.h"

// Include only from files in this folder, like launch.h.
namespace telar::cuda {

// Function objects, not lambdas: nvcc does not allow its lambdas in a function that takes others.

/// Computes piece i / results of result i mod results.
template <typename T, typename Terms, typename Combine, typename Finish>
struct PieceOfColumn {
  Pieces pieces;
  T* between;
  T start;
  Terms terms;
  Combine combine;
  Finish finish;

  TELAR_GPU void operator()(int64_t i) const {
    const int64_t piece = i / pieces.results;
    const int64_t result = i - piece * pieces.results;
    const auto place = terms.place(result);
    const int64_t first = piece * pieces.each;
    const int64_t left = pieces.length - first;
    const int64_t count = left < pieces.each ? left : pieces.each;
    T value = start;
    for (int64_t t = 0; t < count; ++t) value = combine(value, terms(place, first + t));
    if (pieces.count == 1) {
      finish(result, value);
    } else {
      between[i] = value;
    }
  }
};

template <typename T, typename Terms>
struct TermOfPiece {
  Pieces pieces;
  T start;
  Terms terms;

  TELAR_GPU T operator()(int64_t i, int64_t t) const {
    const int64_t piece = i / pieces.results;
    const int64_t term = piece * pieces.each + t;
    return term < pieces.length ? terms(terms.place(i - piece * pieces.results), term) : start;
  }
};

template <typename T, typename Finish>
struct FinishPiece {
  Pieces pieces;
  T* between;
  Finish finish;

  TELAR_GPU void operator()(int64_t i, const T& value) const {
    if (pieces.count == 1) {
      finish(i, value);
    } else {
      between[i] = value;
    }
  }
};

template <typename T>
struct TermBetween {
  Pieces pieces;
  const T* between;
  TELAR_GPU T operator()(int64_t result, int64_t piece) const {
    return between[piece * pieces.results + result];
  }
};

/// Calls finish(r, start ∘ terms(p, 0) ∘ … ∘ terms(p, length − 1)) for every result r. p = terms.place(r) may
/// be computed once for many terms. ∘ = combine is associative and commutative except for rounding, and
/// `start` is its neutral element. `between`: pieces.between() values of T.
template <typename T, typename Terms, typename Combine, typename Finish>
cudaError_t reduce_pieces(const Pieces& pieces, T* between, cudaStream_t stream, T start, const Terms& terms,
                          Combine combine, const Finish& finish) {
  const int64_t all = pieces.results * pieces.count;
  const cudaError_t status =
      pieces.columns
          ? for_each(all, stream,
                     PieceOfColumn<T, Terms, Combine, Finish>{pieces, between, start, terms, combine, finish})
          : reduce(all, pieces.each, stream, start, TermOfPiece<T, Terms>{pieces, start, terms}, combine,
                   FinishPiece<T, Finish>{pieces, between, finish});
  if (status != cudaSuccess || pieces.count == 1) return status;
  return reduce(pieces.results, pieces.count, stream, start, TermBetween<T>{pieces, between}, combine,
                finish);
}

}  // namespace telar::cuda
