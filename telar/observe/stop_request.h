#pragma once

#include <csignal>

namespace telar {

/// Turns Ctrl-C (SIGINT) and SIGTERM into a question that the training loop asks, for as long as this object lives:
/// the first one is noted, so that the run can save a checkpoint and end; a second one of the same kind ends the
/// process at once, as if nobody listened. The destructor puts back the handlers that were there before.
/// Signals belong to the process, so there is at most one: a second object throws Error (run).
class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  /// Whether a signal has come. A read of one lock-free atomic: may be asked at every step, from any thread.
  bool requested() const { return signal_number() != 0; }
  /// SIGINT, SIGTERM, or 0.
  int signal_number() const;

 private:
  struct sigaction previous_interrupt_ = {};
  struct sigaction previous_terminate_ = {};
};

}  // namespace telar
