#pragma once

#include <cstddef>
#include <span>

namespace telar {

/// A block of memory that an executable needs from step `first` to step `last`, inclusive.
struct Life {
  size_t bytes = 0;  ///< a multiple of the device's alignment
  int first = -1;
  int last = -1;
  size_t offset = 0;  ///< set by place_lives
};

/// Gives every life an offset in one block of memory, so that lives that overlap in time share no byte.
/// Greedy by size (Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020).
/// Returns the size of the block in bytes.
size_t place_lives(std::span<Life> lives);

}  // namespace telar
