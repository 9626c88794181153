#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "telar/core/error.h"

namespace telar::mpi {

/// A communicator of the same processes, with messages separate from those in `comm`. All processes call it.
inline MPI_Comm copy_of(MPI_Comm comm) {
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_dup(comm, &copy);
  return copy;
}

/// A thread that tells the other processes once a second that this one is alive, and records when each was
/// last heard of. It is independent of the computation, so a long step does not count as a failure; a stopped
/// or lost process does.
class Watch {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kEvery{1};
  static constexpr std::chrono::seconds kPatience{20};
  static constexpr std::chrono::seconds kLastResort{6};

  /// `comm`: a communicator that nothing else uses.
  explicit Watch(MPI_Comm comm);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// Throws Error (run) if a process has not been heard of for kPatience.
  void check() const;
  /// `last_resort` is called on the thread when kLastResort has passed after kPatience, because this process
  /// computes or waits without calling check().
  void when_lost(std::function<void(const Error&)> last_resort);

  /// Calls `done` until it returns true or check() throws.
  template <typename Done>
  void wait_until(const Done& done) const {
    for (int turns = 0; !done(); ++turns) {
      if (turns < kSpins) continue;
      check();
      std::this_thread::yield();
    }
  }

  /// Waits until the request is complete.
  void wait(MPI_Request& request) const {
    wait_until([&request] {
      int done = 0;
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      return done != 0;
    });
  }

 private:
  static constexpr int kSpins = 100;

  static Error lost(int rank);
  void listen();
  void speak();
  void judge();

  MPI_Comm comm_;
  int rank_ = 0;
  int size_ = 1;
  std::vector<Clock::time_point> heard_;
  std::vector<MPI_Request> spoken_;
  char word_ = 0;
  std::atomic<int> silent_{-1};
  std::mutex mutex_;  ///< guards last_resort_
  std::function<void(const Error&)> last_resort_;
  std::jthread thread_;
};

}  // namespace telar::mpi
