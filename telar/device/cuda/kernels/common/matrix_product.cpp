#include "telar/device/cuda/kernels/common/matrix_product.h"

namespace telar::cuda {

namespace {

ColumnMajor column_major(const Shape& row_major, bool transposed) {
  const size_t rank = row_major.rank();
  return {row_major[rank - 1], row_major[rank - 2], transposed};
}

}  // namespace

MatrixProduct matrix_product(const Shape& a, bool transpose_a, const Shape& b, bool transpose_b,
                             const Shape& y) {
  const ColumnMajor result = column_major(y, false);
  return {column_major(b, transpose_b), column_major(a, transpose_a), result,
          y.elements() / (result.rows * result.columns)};
}

}  // namespace telar::cuda
