#pragma once

#include <chrono>

namespace telar {

/// Of one message between a coordinator and a member; the job's description is the largest.
inline constexpr int kMaxMemberMessageBytes = 4 << 20;
/// Between two looks at what has timed out, on both sides.
inline constexpr std::chrono::milliseconds kMemberTick{100};
/// Without a tick for longer than this, the process itself did not run, and its peers' silence says nothing.
inline constexpr std::chrono::seconds kMemberStopped{1};
/// How long a side that ends waits for its last messages to be taken.
inline constexpr std::chrono::seconds kMemberGoodbye{1};

}  // namespace telar
