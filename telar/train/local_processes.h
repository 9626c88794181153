#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "telar/observe/child_process.h"

namespace telar {

/// Local processes that are started, monitored, restarted when they die, and ended together.
class LocalProcesses {
 public:
  /// `say` receives messages about deaths and restarts, from any thread.
  explicit LocalProcesses(std::function<void(const std::string&)> say);
  /// Ends all processes: SIGTERM, then SIGKILL for those still running 10 s later.
  ~LocalProcesses();
  LocalProcesses(const LocalProcesses&) = delete;
  LocalProcesses& operator=(const LocalProcesses&) = delete;

  /// Throws Error (run) if it cannot be started.
  void start(ChildStart what);
  /// Whether a process of this name was started and has not left (ChildStart::may_leave).
  bool has(const std::string& name) const;
  /// Disables restarts from now on.
  void let_end();
  /// Waits up to `seconds` for all processes to end. Returns true if they have ended.
  bool wait_for_end(double seconds);
  /// Throws Error (run) if an irreplaceable process has ended, and, with the last lines of its log, if a
  /// process has died 5 times within seconds of its start.
  void check() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Process {
    ChildStart what;
    int pid = -1;  ///< -1: not running
    bool left = false;
    int quick_deaths = 0;
    Clock::time_point started;
    Clock::time_point again;  ///< when to restart it
  };

  void watch(const std::stop_token& stop);
  void look_after(Process& process);
  bool all_ended() const;
  void signal_all(int number);

  std::function<void(const std::string&)> say_;
  mutable std::mutex mutex_;  ///< guards the members below
  std::vector<Process> processes_;
  bool restarts_ = true;
  std::string failure_;
  std::jthread thread_;
};

}  // namespace telar
