#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "telar/data/streams/stream.h"
#include "telar/train/step_source.h"

namespace telar {

/// The batches of a stream that the workers of parameter servers lease: they come to exist as their messages
/// arrive. A lease is of messages that exist, so no worker waits for one. Without a clock: the caller says
/// what time it is.
class StreamWork {
 public:
  /// `linger_seconds`: of streams by arrival, how long a message waits for a batch to be full, while no other
  /// batch waits for a worker. 0: for ever. `at_once`: steps that a worker leases at once, if so many exist.
  StreamWork(const Stream& stream, double linger_seconds, int64_t at_once);

  /// The steps of a range, of which none exist yet.
  void begin(const StepRange& range);
  /// Where the first one begins.
  const Position& start() const { return places_.begin()->second; }

  /// Where further steps end whose messages exist. `unbegun`: earlier ones that no worker has begun.
  std::vector<std::string> extend(int64_t unbegun, double now);

  /// For the user, once each time: why no step exists, for ten seconds up to the last extend().
  std::optional<std::string> stalled();

  /// A step is done, in any order: where it began and where it ended.
  struct Place {
    Position at;
    Position after;
  };
  Place done(int64_t step);
  /// Where the first step that is not done begins.
  const Position& position() const { return places_.begin()->second; }
  /// Messages that workers can work on: those of steps that are not done, and of batches that could be steps,
  /// as of the last extend(). Those that wait for others, such as a partition's that is ahead, are not.
  int64_t lag() const;
  /// The same with those of all steps that are done, plus a constant.
  int64_t existing() const { return counted_ + further(); }

 private:
  /// Messages behind the last step that could be steps.
  int64_t further() const;
  int64_t messages_between(const Position& position, const Position& later) const;

  const Stream& stream_;
  double linger_;
  int64_t ahead_;    ///< so many steps exist before a worker asks for them
  int64_t end_ = 0;  ///< of the range
  /// Where steps begin: the first one that is not done, those that exist, and the one after them.
  std::map<int64_t, Position> places_;
  std::set<int64_t> done_;               ///< after the first one that is not
  std::vector<int64_t> ends_;            ///< of the partitions, as of the last extend()
  int64_t counted_ = 0;                  ///< messages of steps that have existed, plus a constant
  std::optional<double> waiting_since_;  ///< messages that are in no step yet
  std::optional<double> idle_since_;     ///< no step exists that is not done
  bool told_ = false;                    ///< why
  double now_ = 0;                       ///< of the last extend()
};

}  // namespace telar
