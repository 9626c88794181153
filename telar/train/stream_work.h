#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "telar/data/stream.h"
#include "telar/train/step_source.h"

namespace telar {

/// The batches of a stream that the workers of parameter servers lease: they come to exist as their messages
/// arrive. A lease is of messages that exist, so no worker waits for one. Without a clock: the caller says
/// what time it is.
class StreamWork {
 public:
  /// `linger_seconds`: of streams by arrival, how long a message waits for a batch to be full, while no other
  /// batch waits for a worker. 0: for ever.
  StreamWork(const Stream& stream, double linger_seconds) : stream_(stream), linger_(linger_seconds) {}

  /// The steps of a range, of which none exist yet.
  void begin(const StepRange& range);
  /// Where the first one begins.
  const Position& start() const { return places_.begin()->second; }

  /// Where further steps end whose messages exist. `unbegun`: earlier ones that no worker has begun.
  std::vector<std::string> extend(int64_t unbegun, double now);

  /// A step is done, in any order: where it began and where it ended.
  struct Place {
    Position at;
    Position after;
  };
  Place done(int64_t step);
  /// Where the first step that is not done begins.
  const Position& position() const { return places_.begin()->second; }
  /// Messages that exist and belong to no step that is done.
  int64_t lag() const;
  /// All offsets that exist, as of the last extend().
  int64_t existing() const { return existing_; }

 private:
  const Stream& stream_;
  double linger_;
  int64_t end_ = 0;  ///< of the range
  /// Where steps begin: the first one that is not done, those that exist, and the one after them.
  std::map<int64_t, Position> places_;
  std::set<int64_t> done_;  ///< after the first one that is not
  int64_t existing_ = 0;
  std::optional<double> waiting_since_;  ///< messages that are in no step yet
};

}  // namespace telar
