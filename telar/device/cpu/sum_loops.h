#pragma once

#include <cstdint>

namespace telar::cpu {

/// The sum of `count` numbers, in an order that depends on `count` only.
float sum_of(const float* x, int64_t count);

/// Rows and columns of a matrix, and the distance from a row to the next, in elements.
struct RowsAndColumns {
  int64_t rows, columns, step;
};

/// y[j] += the sum of column j of x, in an order that depends on the number of rows only. The second one is
/// for bf16.
void add_columns(const float* x, const RowsAndColumns& of, float* y);
void add_columns(const uint16_t* x, const RowsAndColumns& of, float* y);

}  // namespace telar::cpu
