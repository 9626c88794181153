#include "telar/train/worker_loop.h"

#include <chrono>
#include <utility>

#include "telar/core/clock.h"
#include "telar/core/error.h"
#include "telar/data/batch_source.h"
#include "telar/train/batch_view.h"
#include "telar/train/step_source.h"

namespace telar {

WorkerLoop::WorkerLoop(WorkSource& source, Session& session, LeasedBatches& batches, int64_t steps,
                       const TrainerOptions& options, int64_t parts,
                       std::function<void(const std::string&)> say)
    : source_(source),
      session_(session),
      options_(options),
      parts_in_batch_(parts),
      say_(std::move(say)),
      batches_(batches),
      loader_(batches_, {.threads = options.loader_threads, .prefetch = options.prefetch}),
      steps_per_epoch_(steps) {}

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
  session_.pull();
  batches_.clear();
  entries_.clear();
  begun_ = false;
  if (!take_lease()) return;
  const uint32_t epoch = epoch_;
  loader_.start(batches_.begin(epoch));
  while (!source_.lost()) {
    while (entries_.size() <= static_cast<size_t>(options_.prefetch) && !held_ && take_lease())
      loader_.extend();
    const Batch* batch = next_batch();
    if (batch == nullptr) break;
    if (preparing_) tell_prepared(seconds_since(start));
    train(*batch, entries_.front());
    entries_.pop_front();
  }
  // A piece of work that is not complete has not been pushed: it goes to others.
  if (!pending_.empty() && !source_.lost()) source_.give_back(pending_.front().lease, pending_.front().step);
  pending_.clear();
}

/// Returns false if there is no work left in this epoch.
bool WorkerLoop::take_lease() {
  std::optional<Lease> lease = held_ ? std::exchange(held_, {}) : source_.lease();
  if (!lease) return false;
  check_lease(*lease, steps_per_epoch_, parts_in_batch_);
  if (begun_ && lease->epoch != epoch_) {
    held_ = lease;  // the next epoch has begun, but the loader reads this one
    return false;
  }
  epoch_ = lease->epoch;
  begun_ = true;
  for (size_t i = 0; i < lease->works.size(); ++i) {
    const int64_t step = lease->begin + static_cast<int64_t>(i);
    const bool completes = i + 1 == lease->works.size() || lease->works[i + 1] != lease->works[i];
    batches_.add(*lease, step);
    entries_.push_back({lease->id, step, lease->works[i], completes});
  }
  return true;
}

void WorkerLoop::tell_prepared(double seconds) {
  if (say_)
    say_(fmt::format("has parameters and data, {:.2f} s after it joined (excluding the wait for work)",
                     *preparing_ + seconds));
  preparing_.reset();
}

StepInputs WorkerLoop::inputs_of(uint32_t epoch, int64_t step) const {
  const int64_t number = static_cast<int64_t>(epoch) * steps_per_epoch_ + step + 1;
  const double rate = learning_rate_in_epoch(options_.schedule, epoch, steps_per_epoch_, step);
  return {static_cast<float>(rate), number, epoch, 1};
}

void WorkerLoop::train(const Batch& batch, const Entry& entry) {
  source_.wait_for_slowest();
  const auto start = std::chrono::steady_clock::now();
  StepInputs inputs = inputs_of(batch.epoch, entry.step);
  inputs.samples = std::max<int64_t>(1, batch.size());  // for this worker's own update
  inputs.work = entry.work;
  inputs.completes_work = entry.completes_work;
  const int64_t number = std::exchange(inputs.step, ++own_updates_);
  const StepResult result = session_.train(view_of(batch), inputs);
  inputs.step = number;
  pending_.push_back({.lease = entry.lease,
                      .step = entry.step,
                      .samples = batch.size(),
                      .metrics = result.metrics,
                      .seconds = seconds_since(start),
                      .latency = latency_since(batch.arrived)});
  if (!result.finite) fail(batch, inputs);
  settle(result);
}

/// Reports to the coordinator the outcome of the parts that were trained since the last push.
void WorkerLoop::settle(const StepResult& result) {
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
}

void WorkerLoop::fail(const Batch& batch, const StepInputs& inputs) {
  const std::string sentence = fmt::format(
      "the loss is not finite at step {} (epoch {}); it was first seen in {}; try a lower learning rate than {}, or check the data",
      inputs.step, batch.epoch + 1, session_.find_non_finite(view_of(batch), inputs), inputs.learning_rate);
  source_.fail_all(sentence);
  throw run_error("{}", sentence);
}

}  // namespace telar
