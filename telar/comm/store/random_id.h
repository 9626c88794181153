#pragma once

#include <cstdint>
#include <random>

namespace telar {

/// 64 random bits from the system's source, so that no two servers or clients share an id.
inline uint64_t random_id() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

}  // namespace telar
