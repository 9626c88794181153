#pragma once

namespace telar::test {

/// Whether this program is built with a sanitizer. The stand-ins for GPUs then take seconds for one step, so
/// a test may run fewer steps if each step runs the same code. The Release build compares all of them.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// Whether this program is built with the thread sanitizer. It knows no threads made by C11's `thrd_create`,
/// as librdkafka's are: an allocation in one of them can crash the program.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitized = true;
#else
inline constexpr bool kThreadSanitized = false;
#endif

}  // namespace telar::test
