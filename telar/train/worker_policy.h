#pragma once

#include <cstdint>
#include <deque>
#include <optional>

namespace telar {

/// The limits between which the number of workers follows the load.
struct ElasticWorkers {
  int64_t min = 0;  ///< 0: the number is fixed
  int64_t max = 0;
  double lag_seconds = 5;  ///< the lag that is to be kept
  bool operator==(const ElasticWorkers&) const = default;
};

/// What the number of workers depends on, measured over the last seconds. Rates are messages in a second.
struct WorkerLoad {
  double now = 0;   ///< seconds
  int64_t lag = 0;  ///< messages that exist and are not done
  double arriving = 0;
  double of_one = 0;    ///< that a worker manages when it has work; 0: not known yet
  int64_t working = 0;  ///< workers that have begun to ask for work

  /// How long the present workers would take for what waits.
  double lag_seconds() const;
};

/// Decides how many workers there should be. Without clock and threads.
///
/// It grows when the lag exceeds half its limit, to the number that would keep up and work the lag off within
/// the limit, but at most to twice as many at once, and not again before these work (or ten seconds have
/// passed). It shrinks when the lag is below a quarter of its limit and fewer workers would keep up with a
/// margin, both for 15 seconds, at most to half as many at once. So a load that rises and falls within 15
/// seconds keeps the number that its peaks need.
class WorkerPolicy {
 public:
  explicit WorkerPolicy(const ElasticWorkers& limits) : limits_(limits), wanted_(limits.min) {}

  /// The number of workers from now on. Times must not decrease. While nobody works, it stays.
  int64_t decide(const WorkerLoad& load);
  int64_t wanted() const { return wanted_; }

 private:
  void grow(const WorkerLoad& load);
  void shrink(const WorkerLoad& load);

  ElasticWorkers limits_;
  int64_t wanted_;
  std::optional<double> grown_;       ///< when
  std::optional<double> calm_since_;  ///< fewer workers would do
  int64_t needed_meanwhile_ = 0;      ///< the most of these
};

/// Measures the load from what a coordinator counts. What a worker manages are the samples of its steps by
/// the seconds that they took, so it is known of idle workers, too. But the time of a step contains neither
/// reading nor the system's waits. So it is multiplied by the share of their time that workers spent in steps
/// when steps last waited for workers for some seconds.
class WorkerLoadMeter {
 public:
  /// Steps of so many samples are done, which took workers so many seconds together.
  void done(int64_t samples, double busy_seconds);

  /// The load now. `existing`: messages that have ever arrived, plus any constant. `steps_wait`: there are
  /// some that no worker has begun.
  WorkerLoad measure(double now, int64_t existing, int64_t lag, int64_t working, bool steps_wait);

 private:
  void measure_share();

  struct Reading {
    double time = 0;
    int64_t existing = 0;
    int64_t samples = 0;
    double busy_seconds = 0;
  };
  Reading total_;
  std::deque<Reading> readings_;          ///< of the last seconds
  std::optional<Reading> waiting_since_;  ///< since then steps have waited and as many workers have worked
  int64_t working_ = 0;                   ///< at the last measurement
  double in_steps_ = 0;                   ///< samples of a worker in a second of its steps
  double share_ = 1;                      ///< of a worker's time that is in steps
};

}  // namespace telar
