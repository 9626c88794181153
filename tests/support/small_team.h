#pragma once

#include <omp.h>

#include <algorithm>

namespace telar::test {

/// Two threads, or the one that OMP_THREAD_LIMIT allows (as under the thread sanitizer).
inline int small_team() { return std::min(2, omp_get_thread_limit()); }

}  // namespace telar::test
