#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace telar {

/// The numbers 0 … size-1 in an order that depends only on seed and name (Fisher–Yates). Throws Error (user)
/// for sizes that do not fit in 32 bits.
std::vector<uint32_t> permutation(int64_t size, uint64_t seed, std::string_view name);

/// The numbers 0 … size-1 in ascending order. Throws Error (user) as permutation().
std::vector<uint32_t> in_order(int64_t size);

}  // namespace telar
