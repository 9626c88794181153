#include "telar/train/worker_loop.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <tuple>
#include <utility>

#include "telar/core/clock.h"
#include "telar/core/error.h"
#include "telar/data/batch_source.h"
#include "telar/train/batch_view.h"
#include "telar/train/step_source.h"

namespace telar {

WorkerLoop::WorkerLoop(WorkSource& source, Session& session, LeasedBatches& batches, int64_t steps,
                       const TrainerOptions& options, int64_t parts,
                       std::function<void(const std::string&)> say, StoreAccess* rounds)
    : source_(source),
      session_(session),
      options_(options),
      parts_in_batch_(parts),
      say_(std::move(say)),
      rounds_(rounds != nullptr),
      batches_(batches),
      loader_(batches_, {.threads = options.loader_threads, .prefetch = options.prefetch}),
      steps_per_epoch_(steps) {
  if (rounds_) rounds->next_round = [this](int64_t work) { return next_round(work); };
}

void WorkerLoop::run() {
  // A member that holds a lease has work, but need not be told so.
  while (!stopped_ && (held_ || source_.wait_for_work())) work_on_epoch();
}

/// Works until there is no more work now: at the end of an epoch, or while other workers finish theirs.
const Batch* WorkerLoop::next_batch() {
  try {
    return loader_.next();
  } catch (const ReadStopped&) {
    stopped_ = true;
    return nullptr;
  } catch (const Error&) {
    cannot_read_ = true;
    throw;
  }
}

void WorkerLoop::work_on_epoch() {
  const auto start = std::chrono::steady_clock::now();
  entries_.clear();
  begun_ = false;
  if (!take_lease()) return;
  if (!rounds_) session_.pull();  // with all updates of the epochs before that of the lease
  while (!source_.lost() && !stopped_) {
    while (std::ssize(entries_) <= options_.prefetch && !held_ && take_lease()) {
    }
    if (entries_.empty()) break;
    if (waits_for_turn(entries_.front())) continue;
    const Batch* batch = next_batch();
    if (batch == nullptr) break;
    if (preparing_) tell_prepared(seconds_since(start));
    train(*batch, entries_.front());
    entries_.pop_front();
    for (const Lease& lease : std::exchange(further_, {})) add(lease);
  }
  // A piece of work that is not complete has not been pushed: it goes to others.
  if (!source_.lost())
    for (const PartDone& part : pending_) source_.give_back(part.lease, part.step);
  pending_.clear();
}

/// Returns false if there is no work left in this epoch.
bool WorkerLoop::take_lease() {
  const std::optional<Lease> lease = held_ ? std::exchange(held_, {}) : source_.lease();
  return lease && add(*lease);
}

/// Returns false for a lease of the next epoch: it has begun, but the loader reads this one.
bool WorkerLoop::add(const Lease& lease) {
  check_lease(lease, steps_per_epoch_, parts_in_batch_);
  if (begun_ && lease.epoch != epoch_) {
    held_ = lease;
    return false;
  }
  const auto order = [](const Entry& entry) {
    return std::tuple(!entry.lease->applied, entry.work, entry.lease->part, entry.step);
  };
  const auto shared = std::make_shared<const Lease>(lease);
  bool behind = begun_;  // all others
  epoch_ = lease.epoch;
  begun_ = true;
  for (size_t i = 0; i < lease.works.size(); ++i) {
    const int64_t step = lease.begin + static_cast<int64_t>(i);
    const bool completes = i + 1 == lease.works.size() || lease.works[i + 1] != lease.works[i];
    const Entry entry{shared, step, lease.works[i], completes};
    auto place = entries_.end();
    if (rounds_)
      place = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& other) {
        return other.lease->id != unfinished_ && order(other) > order(entry);
      });
    behind = behind && place == entries_.end();
    entries_.insert(place, entry);
    if (behind) batches_.add(lease, step);
  }
  if (behind) {
    loader_.extend();
  } else {
    read_again();
  }
  return true;
}

/// Reads the batches of all entries, in their order.
void WorkerLoop::read_again() {
  loader_.start(batches_.begin(epoch_), 0);  // ends what it reads
  batches_.clear();
  for (const Entry& entry : entries_) batches_.add(*entry.lease, entry.step);
  loader_.start(batches_.begin(epoch_));
}

/// Waits until the entry's piece of work may begin. Returns true if other work comes first.
bool WorkerLoop::waits_for_turn(const Entry& entry) {
  if (rounds_ && (entry.work == current_ || entry.lease->applied)) return false;
  if (const std::optional<Lease> earlier = source_.wait_for_turn(entry.work)) return add(*earlier);
  if (!rounds_ || source_.lost()) return false;
  session_.pull();
  current_ = entry.work;
  return false;
}

/// Called by the session before it pushes.
std::optional<StoreRound> WorkerLoop::next_round(int64_t work) {
  std::set<uint64_t> leases{entries_.front().lease->id};
  for (const PartDone& part : pending_) leases.insert(part.lease);
  while (const std::optional<WorkSource::RoundAnswer> answer = source_.next_round(work, leases)) {
    if (const auto* round = std::get_if<StoreRound>(&*answer)) {
      contributes_ = !round->members.empty();
      return *round;
    }
    further_.push_back(std::get<Lease>(*answer));
    if (!further_.back().applied) return std::nullopt;  // a report has time
  }
  stopped_ = true;
  return std::nullopt;
}

void WorkerLoop::tell_prepared(double seconds) {
  if (say_)
    say_(fmt::format("has parameters and data, {:.2f} s after it joined (excluding the wait for work)",
                     *preparing_ + seconds));
  preparing_.reset();
}

StepInputs WorkerLoop::inputs_of(uint32_t epoch, int64_t step) const {
  const int64_t number = static_cast<int64_t>(epoch) * steps_per_epoch_ + step + 1;
  const double rate =
      learning_rate_in_epoch(options_.schedule, {.epoch = epoch, .steps = steps_per_epoch_}, step);
  return {static_cast<float>(rate), number, epoch, 1};
}

void WorkerLoop::train(const Batch& batch, const Entry& entry) {
  if (entry.lease->applied) return report(batch, entry);
  const auto start = std::chrono::steady_clock::now();
  StepInputs inputs = inputs_of(batch.epoch, entry.step);
  inputs.samples = std::max<int64_t>(1, batch.size());  // for this worker's own update
  inputs.work = entry.work;
  inputs.completes_work = entry.completes_work;
  inputs.more_parts = rounds_ && std::any_of(entries_.begin() + 1, entries_.end(), [&](const Entry& other) {
                        return other.work == entry.work && other.lease != entry.lease;
                      });
  const int64_t number = std::exchange(inputs.step, ++own_updates_);
  const StepResult result = session_.train(view_of(batch), inputs);
  inputs.step = number;
  unfinished_ = entry.completes_work ? 0 : entry.lease->id;
  pending_.push_back({.lease = entry.lease->id,
                      .step = entry.step,
                      .samples = batch.size(),
                      .metrics = result.metrics,
                      .seconds = seconds_since(start),
                      .latency = latency_since(batch.arrived)});
  if (!result.finite) fail(batch, inputs);
  settle(result, entry.work);
}

/// Reports a batch of which the update was made before.
void WorkerLoop::report(const Batch& batch, const Entry& entry) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<double> metrics(session_.metric_names().size());
  if (batch.size() > 0) metrics = session_.evaluate(view_of(batch));
  source_.done({.lease = entry.lease->id,
                .step = entry.step,
                .samples = batch.size(),
                .metrics = std::move(metrics),
                .seconds = seconds_since(start),
                .latency = latency_since(batch.arrived)});
}

/// Reports to the coordinator the outcome of the parts that were trained since the last push.
void WorkerLoop::settle(const StepResult& result, int64_t work) {
  if (result.lost_updates > 0 && say_)
    say_(fmt::format("a restarted parameter server has lost {} updates", result.lost_updates));
  if (result.fate == StepResult::Fate::pending) return;
  for (PartDone& part : pending_) {
    part.staleness = result.staleness;
    if (result.fate == StepResult::Fate::used) {
      source_.done(part);
    } else {
      source_.give_back(part.lease, part.step);
    }
  }
  pending_.clear();
  // A round that was not applied is repeated with the same parameters.
  if (result.fate == StepResult::Fate::used) current_ = contributes_ ? work + 1 : 0;
}

void WorkerLoop::fail(const Batch& batch, const StepInputs& inputs) {
  const std::string sentence = fmt::format(
      "the loss is not finite at step {} (epoch {}); it was first seen in {}; try a lower learning rate than {}, or check the data",
      inputs.step, batch.epoch + 1, session_.find_non_finite(view_of(batch), inputs), inputs.learning_rate);
  source_.fail_all(sentence);
  throw run_error("{}", sentence);
}

}  // namespace telar
