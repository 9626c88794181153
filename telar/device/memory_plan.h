#pragma once

#include <cstddef>
#include <span>

namespace telar {

/// Memory that an executable needs from one of its steps to another, both included.
struct Life {
  size_t bytes = 0;  ///< a multiple of the alignment that the device wants
  int first = -1;
  int last = -1;
  size_t offset = 0;  ///< found by place_lives
};

/// Gives every life an offset in one block of memory such that lives that overlap do not share a byte.
/// Greedy by size (Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020).
/// Returns the bytes of the block.
size_t place_lives(std::span<Life> lives);

}  // namespace telar
