#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "telar/comm/members/work_source.h"
#include "telar/data/loader.h"
#include "telar/data/streams/leased_batches.h"
#include "telar/runtime/session.h"
#include "telar/train/trainer.h"

namespace telar {

/// Trains the parts of batches that a worker with parameter servers is given.
class WorkerLoop {
 public:
  /// All references must outlive this object. `session`: of a worker's program, with its StoreAccess.
  /// `steps`: global batches in an epoch. `options`: those of the run's Trainer; a worker needs schedule and
  /// loader. `parts`: of each global batch. `say` receives messages; may be empty. `rounds`: of a program
  /// with rounds, what its session has as StoreAccess, which from now on asks this object for them.
  WorkerLoop(WorkSource& source, Session& session, LeasedBatches& batches, int64_t steps,
             const TrainerOptions& options, int64_t parts, std::function<void(const std::string&)> say = {},
             StoreAccess* rounds = nullptr);
  WorkerLoop(const WorkerLoop&) = delete;
  WorkerLoop& operator=(const WorkerLoop&) = delete;

  /// Works until the training is over or the worker is lost. Throws Error.
  void run();

  /// Whether run() threw because the samples could not be read. Every other worker would fail alike.
  bool cannot_read() const { return cannot_read_; }

  /// The seconds from joining until the constructor, which run() reports with those until its first batch.
  void prepared(double seconds) { preparing_ = seconds; }

 private:
  struct Entry {
    std::shared_ptr<const Lease> lease;
    int64_t step;
    int64_t work;
    bool completes_work;
  };

  void work_on_epoch();
  /// Null at the end of what the loader reads, and if it was stopped.
  const Batch* next_batch();
  bool take_lease();
  bool add(const Lease& lease);
  void read_again();
  bool waits_for_turn(const Entry& entry);
  std::optional<StoreRound> next_round(int64_t work);
  void tell_prepared(double seconds);
  StepInputs inputs_of(uint32_t epoch, int64_t step) const;
  void train(const Batch& batch, const Entry& entry);
  void report(const Batch& batch, const Entry& entry);
  void settle(const StepResult& result, int64_t work);
  [[noreturn]] void fail(const Batch& batch, const StepInputs& inputs);

  WorkSource& source_;
  Session& session_;
  const TrainerOptions options_;
  const int64_t parts_in_batch_;
  const std::function<void(const std::string&)> say_;
  const bool rounds_;
  LeasedBatches& batches_;
  Loader loader_;
  int64_t steps_per_epoch_;
  int64_t own_updates_ = 0;  ///< of this worker's own optimizer, which begins without a state

  uint32_t epoch_ = 0;
  /// Of the batches that the loader returns next. In rounds, in the order of their pieces of work, and of the
  /// parts of each.
  std::deque<Entry> entries_;
  bool begun_ = false;         ///< the loader reads batches of epoch_
  std::optional<Lease> held_;  ///< a lease of the next epoch
  std::vector<PartDone> pending_;
  uint64_t unfinished_ = 0;  ///< the lease of a part of which some batches are trained; 0: none
  // In rounds:
  int64_t current_ = 0;         ///< the piece of work that begins with these parameters; 0: not known
  std::vector<Lease> further_;  ///< came in place of a round
  bool contributes_ = false;    ///< the last round has this worker
  bool stopped_ = false;        ///< while it waited for samples
  bool cannot_read_ = false;
  std::optional<double> preparing_;  ///< seconds; empty once it is reported
};

}  // namespace telar
