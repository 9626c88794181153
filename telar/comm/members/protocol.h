#pragma once

#include <chrono>

namespace telar {

/// Limit for one message between a coordinator and a member; the job's description is the largest.
inline constexpr int kMaxMemberMessageBytes = 4 << 20;
/// Interval between two checks for timeouts, on both sides.
inline constexpr std::chrono::milliseconds kMemberTick{100};
/// After a longer time without a tick, the process itself was stopped, and its peers' silence means nothing.
inline constexpr std::chrono::seconds kMemberStopped{1};
/// How long a side that ends waits until its last messages are taken.
inline constexpr std::chrono::seconds kMemberGoodbye{1};

}  // namespace telar
