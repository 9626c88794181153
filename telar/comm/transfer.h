#pragma once

namespace telar {

/// A message from one process to another that is sent in every step, between the same two places in memory.
/// Used by one thread at a time.
class Transfer {
 public:
  virtual ~Transfer() = default;
  /// Begins to send or to receive, and returns at once; only in shared memory it may wait until what was sent
  /// before has been received. Until done(), what is sent must not change, and what is received is undefined.
  virtual void start() = 0;
  /// Advances the message without waiting. Returns true when it has passed, and before the first start().
  /// Does not notice a lost process; see Group::check().
  virtual bool done() = 0;
};

}  // namespace telar
