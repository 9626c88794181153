#pragma once

#include <functional>

#include "telar/bench/timing.h"
#include "telar/comm/thread_group.h"
#include "telar/runtime/replica_threads.h"

namespace telar::bench {

/// Threads that measure together, a group of their own. With two or more each stays on a core of its own, one of the first cores
/// of the host whatever core mpirun has bound the process to; a crew of one is the calling thread, wherever that is.
class Crew {
 public:
  using Work = std::function<void(Group&)>;

  explicit Crew(int size);
  Group& member(int rank) { return team_.member(rank); }

  /// Calls the work on every thread, with the thread's member of the group, and waits for all. The first exception is thrown
  /// again.
  void run(const Work& work);
  /// Times `work`, from when all begin until all are done: at least 10 times and `seconds`, after a warm-up. `prepare` is called
  /// on every thread before each time, and is not counted.
  Times time(double seconds, const Work& prepare, const Work& work);

 private:
  ThreadTeam team_;
  ReplicaThreads threads_;
};

}  // namespace telar::bench
