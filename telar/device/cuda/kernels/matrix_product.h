#pragma once

#include "telar/core/shape.h"

namespace telar::cuda {

/// A matrix as cuBLAS reads it, column by column.
struct ColumnMajor {
  int64_t rows = 0;
  int64_t columns = 0;
  bool transposed = false;  ///< the product takes it transposed
  int64_t gap = 0;          ///< elements between a column's end and the next one's begin
};

/// A row-major product y = a · b as cuBLAS computes it. Row-major memory read column by column is the
/// transposed matrix, so that yᵀ = bᵀ · aᵀ needs no memory but that of y, a and b: `left` is what b's memory
/// holds, `right` what a's holds.
struct MatrixProduct {
  ColumnMajor left;
  ColumnMajor right;
  ColumnMajor result;
  int64_t batch = 1;  ///< matrices of each, one behind the other, without gaps
};

/// a: […, M, K], or […, K, M] when transposed; b: […, K, N], or […, N, K]; y: […, M, N]
/// (telar/graph/ops/matmul.h).
MatrixProduct matrix_product(const Shape& a, bool transpose_a, const Shape& b, bool transpose_b,
                             const Shape& y);

}  // namespace telar::cuda
