#include "telar/data/permutation.h"

#include <numeric>
#include <utility>

#include "telar/core/error.h"
#include "telar/core/random.h"

namespace telar {

std::vector<uint32_t> in_order(int64_t size) {
  if (size < 0 || size > int64_t{UINT32_MAX}) {
    throw user_error("A dataset of {} samples cannot be ordered; at most {} samples are possible", size,
                     UINT32_MAX);
  }
  std::vector<uint32_t> order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), 0U);
  return order;
}

std::vector<uint32_t> permutation(int64_t size, uint64_t seed, std::string_view name) {
  std::vector<uint32_t> order = in_order(size);
  RandomSequence random(seed, stream_of(name.data(), name.size()));
  for (size_t left = order.size(); left > 1; --left) {
    std::swap(order[left - 1], order[random.below(static_cast<uint32_t>(left))]);
  }
  return order;
}

}  // namespace telar
