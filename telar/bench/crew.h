#pragma once

#include <functional>

#include "telar/bench/timing.h"
#include "telar/comm/thread_group.h"
#include "telar/runtime/replica_threads.h"

namespace telar::bench {

/// Threads that measure together and form a group. With two or more threads, each is pinned to one of the
/// first cores of the host, whatever core mpirun has bound the process to. A crew of one is the calling
/// thread, which is not pinned.
class Crew {
 public:
  using Work = std::function<void(Group&)>;

  explicit Crew(int size);
  Group& member(int rank) { return team_.member(rank); }

  /// Calls `work` on every thread with the thread's member of the group, and waits for all. Rethrows the
  /// first exception.
  void run(const Work& work);
  /// Times `work` from the common start until all threads are done, at least 10 times and for `seconds`,
  /// after a warm-up. `prepare` is called on every thread before each repetition and is not timed.
  Times time(double seconds, const Work& prepare, const Work& work);

 private:
  ThreadTeam team_;
  ReplicaThreads threads_;
};

}  // namespace telar::bench
