#pragma once

namespace telar::test {

/// Whether this program is built with a sanitizer, under which the stand-ins for GPUs take seconds for one step. A test may
/// then take fewer steps if each runs the same code; the Release build compares the results of all of them.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace telar::test
