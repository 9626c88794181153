#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

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
#pragma omp parallel num_threads(threads)
  {
    const int64_t team = omp_get_num_threads();
    const int64_t member = omp_get_thread_num();
    const int64_t begin = count * member / team;
    const int64_t end = count * (member + 1) / team;
    if (begin < end) body(begin, end);
  }
}

}  // namespace telar::cpu
