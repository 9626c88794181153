#pragma once

#include <cstdint>

namespace telar::cuda {

/// A stack of `count` matrices of `rows` × `columns`, each of which is transposed to convert a tensor to
/// another layout.
struct Transposition {
  int64_t count = 1;
  int64_t rows = 1;
  int64_t columns = 1;
};

/// The source index of element `i` of a transposed stack. `Index` is int64_t, or a 32-bit type when it can
/// count all elements: GPUs divide 32-bit numbers several times as fast.
template <typename Index>
constexpr Index transposed_source(Index i, Index rows, Index columns) {
  const Index matrix = i / (rows * columns);
  const Index within = i - matrix * (rows * columns);
  const Index column = within / rows;
  return matrix * (rows * columns) + (within - column * rows) * columns + column;
}

}  // namespace telar::cuda
