#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "telar/core/buffer.h"

namespace telar {

/// Memory for what graphs compute that run one after another, as large as the largest of them needs.
class CommonMemory {
 public:
  /// All of it, at least `bytes`. Loses the contents if it must grow.
  std::span<std::byte> at_least(size_t bytes) {
    if (bytes > memory_.size()) {
      memory_ = Buffer(0);
      memory_ = Buffer(bytes);
      ++generation_;
    }
    return {memory_.data(), memory_.size()};
  }
  std::byte* data() { return memory_.data(); }
  size_t size() const { return memory_.size(); }
  /// From 1; larger whenever the memory has moved.
  uint64_t generation() const { return generation_; }

 private:
  Buffer memory_;
  uint64_t generation_ = 1;
};

}  // namespace telar
