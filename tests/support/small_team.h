#pragma once

#include <omp.h>

#include <algorithm>

namespace telar::test {

/// The number of threads for a small team: two, or one if OMP_THREAD_LIMIT allows no more (thread sanitizer).
inline int small_team() { return std::min(2, omp_get_thread_limit()); }

}  // namespace telar::test
