#include "telar/core/random.h"

#include <cmath>
#include <numbers>

namespace telar {

std::array<float, 2> normal_pair(uint32_t a, uint32_t b) {
  const float radius = std::sqrt(-2.0F * std::log((static_cast<float>(a >> 8) + 1.0F) * 0x1.0p-24F));
  const float angle = 2.0F * std::numbers::pi_v<float> * uniform01(b);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

uint64_t stream_of(const char* name, size_t length) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (size_t i = 0; i < length; ++i) hash = (hash ^ static_cast<unsigned char>(name[i])) * 0x100000001b3ULL;
  return hash;
}

uint32_t RandomSequence::next() {
  const auto lane = static_cast<size_t>(drawn_ % 4);
  if (lane == 0) {
    const uint64_t index = drawn_ / 4;
    block_ = philox_({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), 0, 0});
  }
  ++drawn_;
  return block_[lane];
}

uint32_t RandomSequence::below(uint32_t bound) {
  uint64_t product = uint64_t{next()} * bound;
  auto low = static_cast<uint32_t>(product);
  if (low < bound) {
    const uint32_t threshold = (0U - bound) % bound;
    while (low < threshold) {
      product = uint64_t{next()} * bound;
      low = static_cast<uint32_t>(product);
    }
  }
  return static_cast<uint32_t>(product >> 32);
}

float RandomSequence::normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  const uint32_t a = next();
  const auto pair = normal_pair(a, next());
  spare_ = pair[1];
  has_spare_ = true;
  return pair[0];
}

}  // namespace telar
