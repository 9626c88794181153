#pragma once

namespace telar::test {

/// Whether this program is built with a sanitizer. The stand-ins for GPUs then take seconds for one step, so
/// a test may run fewer steps if each step runs the same code. The Release build compares all of them.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace telar::test
