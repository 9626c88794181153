#pragma once

#include <csignal>

namespace telar {

/// Turns Ctrl-C (SIGINT) and SIGTERM into a flag for the training loop during the lifetime of this object.
/// The first signal is recorded, so that the run can save a checkpoint and end. A second signal of the same
/// kind ends the process at once, as usual. The destructor restores the previous handlers. Signals belong to
/// the process: a second object throws Error (run).
class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  /// Whether a signal has arrived. Reads one lock-free atomic; can be called at every step and from any
  /// thread.
  bool requested() const { return signal_number() != 0; }
  /// SIGINT, SIGTERM, or 0.
  int signal_number() const;

 private:
  struct sigaction previous_interrupt_ = {};
  struct sigaction previous_terminate_ = {};
};

}  // namespace telar
