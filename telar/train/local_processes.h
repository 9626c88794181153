#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "telar/train/child_process.h"

namespace telar {

/// Processes of this machine that are started, watched, started again when they die, and ended together.
class LocalProcesses {
 public:
  /// `say` is told of deaths and restarts, from any thread.
  explicit LocalProcesses(std::function<void(const std::string&)> say);
  /// Ends all: SIGTERM, and SIGKILL for those that have not ended 10 s later.
  ~LocalProcesses();
  LocalProcesses(const LocalProcesses&) = delete;
  LocalProcesses& operator=(const LocalProcesses&) = delete;

  /// Throws Error (run) when it cannot be started.
  void start(ChildStart what);
  /// From now on nothing is started again.
  void let_end();
  /// Waits up to `seconds` until all have ended. True when they have.
  bool wait_for_end(double seconds);
  /// Throws Error (run), with the last lines of its log, when a process died 5 times within seconds after it was started.
  void check() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Process {
    ChildStart what;
    int pid = -1;  ///< -1: not running
    int quick_deaths = 0;
    Clock::time_point started;
    Clock::time_point again;  ///< when it is to be started again
  };

  void watch(const std::stop_token& stop);
  void look_after(Process& process);
  bool all_ended() const;
  void signal_all(int number);

  std::function<void(const std::string&)> say_;
  mutable std::mutex mutex_;  ///< guards what follows
  std::vector<Process> processes_;
  bool restarts_ = true;
  std::string failure_;
  std::jthread thread_;
};

}  // namespace telar
