#pragma once

#include <signal.h>

#include <array>

namespace telar {

/// Turns Ctrl-C (SIGINT), SIGTERM and SIGHUP (a lost terminal or connection) into a flag for the training
/// loop during the lifetime of this object. The first signal is recorded, so that the run can save a
/// checkpoint and end. A second Ctrl-C or SIGTERM ends the process at once, unless it comes within a
/// second: a shell, the system, mpirun and Slurm may report one event by several signals.
/// Further SIGHUPs never do. A SIGHUP that the process was started to ignore (nohup) stays
/// ignored; SIGINT does not, because every background job of a script ignores it. SIGPIPE is ignored, so
/// that the run outlives the reader of its output. The destructor restores the previous handlers. Signals
/// belong to the process: a second object throws Error (run).
class StopRequest {
 public:
  /// What the signal handler writes to standard error, with a line feed at the end. The texts must outlive
  /// this object; null: nothing.
  struct Messages {
    const char* first = nullptr;   ///< at the first signal
    const char* second = nullptr;  ///< before a second one ends the process
  };

  explicit StopRequest(Messages messages = {nullptr, nullptr});
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  /// Whether a signal has arrived. Reads one lock-free atomic; can be called at every step and from any
  /// thread.
  bool requested() const { return signal_number() != 0; }
  /// The first signal that arrived: SIGINT, SIGTERM, SIGHUP, or 0.
  int signal_number() const;

 private:
  static constexpr std::array<int, 4> kSignals = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
  std::array<struct sigaction, kSignals.size()> previous_ = {};
};

/// While this object exists, a signal that ends this process at once (see StopRequest) first kills the
/// process group `group`, which Ctrl-C does not reach by itself.
class EndsWithThisProcess {
 public:
  /// Throws Error (run) if there are more than 64 such groups.
  explicit EndsWithThisProcess(int group);
  ~EndsWithThisProcess();
  EndsWithThisProcess(const EndsWithThisProcess&) = delete;
  EndsWithThisProcess& operator=(const EndsWithThisProcess&) = delete;

 private:
  int group_;
};

}  // namespace telar
