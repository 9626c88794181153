#pragma once

#include <cstdint>

namespace telar::cuda {

/// A stack of `count` matrices of `rows` × `columns` that is transposed, matrix by matrix, to bring a tensor
/// into another layout.
struct Transposition {
  int64_t count = 1;
  int64_t rows = 1;
  int64_t columns = 1;
};

/// In a transposed stack: where element `i` of the result lies in the source. `Index` is int64_t, or a type
/// of 32 bits where all elements can be counted in it: a GPU divides those several times as fast.
template <typename Index>
constexpr Index transposed_source(Index i, Index rows, Index columns) {
  const Index matrix = i / (rows * columns);
  const Index within = i - matrix * (rows * columns);
  const Index column = within / rows;
  return matrix * (rows * columns) + (within - column * rows) * columns + column;
}

}  // namespace telar::cuda
