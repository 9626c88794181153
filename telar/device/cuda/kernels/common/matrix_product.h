#pragma once

#include "telar/core/shape.h"

namespace telar::cuda {

/// A matrix as cuBLAS reads it, in column-major order.
struct ColumnMajor {
  int64_t rows = 0;
  int64_t columns = 0;
  bool transposed = false;  ///< the product uses its transpose
  int64_t gap = 0;          ///< elements between the end of a column and the beginning of the next
};

/// A row-major product y = a · b in the form that cuBLAS computes. Row-major memory read column by column is
/// the transposed matrix. So yᵀ = bᵀ · aᵀ is computed in the memory of y, a and b: `left` describes b's
/// memory, `right` a's.
struct MatrixProduct {
  ColumnMajor left;
  ColumnMajor right;
  ColumnMajor result;
  int64_t batch = 1;  ///< number of matrices in each operand, one after the other, without gaps
};

/// a: […, M, K], or […, K, M] when transposed; b: […, K, N], or […, N, K]; y: […, M, N]
/// (telar/graph/ops/matmul.h).
MatrixProduct matrix_product(const Shape& a, bool transpose_a, const Shape& b, bool transpose_b,
                             const Shape& y);

}  // namespace telar::cuda
