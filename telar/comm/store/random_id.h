#pragma once

#include <cstdint>
#include <random>

namespace telar {

/// 64 bits that no other server or client has: from the system's source of randomness.
inline uint64_t random_id() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

}  // namespace telar
