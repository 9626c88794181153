#pragma once

#include <cstdint>

namespace telar::cpu {

/// Distance from one block to the next, in elements.
struct BlockSteps {
  int64_t from = 0;
  int64_t to = 0;
};

/// Both functions convert `count` blocks of 16×16 floats, row by row, to bf16, rounded to nearest even; NaN
/// stays NaN. rows_in_pairs interleaves rows 2k and 2k+1: to[k][column][row % 2]. columns_in_pairs
/// interleaves columns 2k and 2k+1, with the columns outermost: to[k][row][column % 2].
void rows_in_pairs(const float* from, uint16_t* to, BlockSteps steps, int64_t count);
void columns_in_pairs(const float* from, uint16_t* to, BlockSteps steps, int64_t count);

}  // namespace telar::cpu
