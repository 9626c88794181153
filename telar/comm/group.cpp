#include "telar/comm/group.h"

#include <algorithm>

namespace telar {

std::pair<size_t, size_t> shard_of(size_t count, int rank, int size) {
  constexpr size_t kLine = 16;  // floats
  const size_t lines = (count + kLine - 1) / kLine;
  const size_t begin = lines * static_cast<size_t>(rank) / static_cast<size_t>(size) * kLine;
  const size_t end = lines * static_cast<size_t>(rank + 1) / static_cast<size_t>(size) * kLine;
  return {std::min(begin, count), std::min(end, count)};
}

}  // namespace telar
