#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "telar/comm/network.h"

namespace telar {

/// How members work together.
enum class Rhythm : uint8_t {
  free,   ///< each at its own pace
  rounds  ///< they contribute together: StoreRound
};

struct CoordinatorOptions {
  std::string listen = "127.0.0.1:0";
  Security security;
  std::string job;                   ///< id of the run
  std::string description;           ///< for the members: what the job is (opaque to comm)
  std::vector<std::string> servers;  ///< addresses of the parameter servers, in the order of the placement
  int64_t workers = 1;               ///< contributions of a round; in `free`, members that work at once
  int64_t backups =
      0;  ///< members beyond that which work too; the first `workers` that are ready make a round
  Rhythm rhythm = Rhythm::free;
  int64_t parts = 1;        ///< of each global batch
  int64_t lease_steps = 8;  ///< batches given at once
  /// `free`: a member waits before it is more than so many batches ahead of the slowest (Ho et al., 2013, stale synchronous parallel);
  /// -1: never.
  int64_t staleness_bound = -1;
  double patience_seconds = 5;  ///< a member that is silent for longer is lost
  /// `rounds`: how long the first epoch waits for `workers` members after the first of them has asked for work.
  double gather_seconds = 10;
  int64_t rounds_before =
      0;  ///< the first round has the number after this one (a resumed run, whose servers know earlier ones)
  std::function<void(const std::string&)>
      say;  ///< told who joins, leaves, is lost or refused, from any thread; may be empty
};

/// A batch of an epoch all of whose parts are done.
struct StepDone {
  uint32_t epoch = 0;
  int64_t step = 0;
  int64_t samples = 0;
  std::vector<double> metrics;  ///< sums over the samples
  double staleness = 0;         ///< mean over the parts
  double seconds = 0;           ///< longest part: computing and exchanging
};

struct MemberInfo {
  uint32_t id = 0;
  std::string name;      ///< "host:pid"
  bool working = false;  ///< false: a spare
  int64_t samples = 0;
  double staleness = 0;  ///< mean over its pushes
};

/// The one that knows who works on what. It listens, gives members their work, forms rounds, and notices who is lost. Members come and
/// go at any time; those beyond workers + backups are spares that step in. One thread calls it.
///
///     coordinator.begin_epoch(0, 0, steps);
///     while (!coordinator.epoch_finished())
///       for (const StepDone& step : coordinator.wait(0.1)) report(step);
class Coordinator {
 public:
  /// Listens. Throws Error (user): an address that cannot be used, listening that is not safe.
  explicit Coordinator(CoordinatorOptions options);
  /// Tells the members that the training is over, and waits a little for their goodbye.
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  std::string address() const;

  /// Gives out steps [first, steps) of an epoch from now on.
  void begin_epoch(uint32_t epoch, int64_t first, int64_t steps);
  /// Begins no further batch; all parts of those that were begun, also what lost members leave behind, are still done.
  /// epoch_finished() is then true when that is done: steps_done() tells where the epoch can go on.
  void drain();
  /// Every part of the epoch is done, and wait() has told all.
  bool epoch_finished() const;
  /// All steps before this one of the epoch are done.
  int64_t steps_done() const;

  /// Steps that were completed since the last call; waits up to `seconds` for the first. In the order in which they were completed.
  /// Throws Error (run) when a member has reported a failure that is the job's (fail_all).
  std::vector<StepDone> wait(double seconds);
  std::vector<MemberInfo> members() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace telar
