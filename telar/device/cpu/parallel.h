#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "telar/device/cpu/team.h"

namespace telar::cpu {

/// The number of threads in the caller's team to use, so that each has `grain` items or more.
inline int useful_threads(int64_t count, int64_t grain) {
  const int64_t useful = std::max<int64_t>(1, count / std::max<int64_t>(1, grain));
  return static_cast<int>(std::min<int64_t>(omp_get_max_threads(), useful));
}

/// Calls body(begin, end) on contiguous parts of [0, count), one for each thread of the caller's team. It
/// uses fewer threads when a thread would have fewer than `grain` items.
template <typename Body>
void parallel_for(int64_t count, int64_t grain, const Body& body) {
  const int threads = useful_threads(count, grain);
  if (threads <= 1) {
    if (count > 0) body(int64_t{0}, count);
    return;
  }
  Team::of_this_thread().run(threads, [&](int64_t member, int64_t members) {
    const int64_t begin = count * member / members;
    const int64_t end = count * (member + 1) / members;
    if (begin < end) body(begin, end);
  });
}

}  // namespace telar::cpu
