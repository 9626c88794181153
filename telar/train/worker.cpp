#include "telar/train/worker.h"

#include <chrono>
#include <deque>
#include <memory>
#include <optional>

#include "telar/comm/members/membership.h"
#include "telar/comm/store/store_client.h"
#include "telar/core/clock.h"
#include "telar/core/error.h"
#include "telar/data/assignment.h"
#include "telar/data/dataset_batches.h"
#include "telar/data/loader.h"
#include "telar/nn/schedule.h"
#include "telar/observe/process.h"
#include "telar/train/batch_view.h"
#include "telar/train/cluster_description.h"
#include "telar/train/data_decision.h"
#include "telar/train/job_loader.h"
#include "telar/train/job_reader.h"
#include "telar/train/job_session.h"
#include "telar/train/job_strategy.h"
#include "telar/train/job_workers.h"

namespace telar {

namespace {

using Clock = std::chrono::steady_clock;

/// The job on this host.
Job job_here(const ClusterDescription& description, const std::vector<std::string>& overrides) {
  return parse_job(job_text(description.job), "the coordinator's job", overrides);
}

DatasetPtr train_samples(Job& job, const ClusterDescription& description) {
  if (!description.data) throw user_error("the coordinator sent no description of its data");
  return open_train_dataset_as_decided(job.data, static_cast<uint64_t>(job.training.seed), *description.data,
                                       available_threads());
}

/// One membership: from joining to the end of the run, or until the coordinator has removed this worker.
class Worker {
 public:
  Worker(const WorkOptions& options, Membership& membership, const ClusterDescription& description)
      : options_(options),
        membership_(membership),
        job_(job_here(description, options.overrides)),
        data_(train_samples(job_, description)),
        parts_(data_->size(), job_.training.batch, static_cast<uint64_t>(job_.training.seed),
               job_.data.shuffle, job_parts(job_), samples_together(job_, job_parts(job_))),
        batches_(*data_, parts_, static_cast<uint64_t>(job_.training.seed)),
        loader_(batches_,
                {.threads = loader_threads(job_, nullptr), .prefetch = static_cast<int>(job_.data.prefetch)}),
        steps_per_epoch_((data_->size() + job_.training.batch - 1) / job_.training.batch),
        schedule_(job_schedule(job_, steps_per_epoch_)) {
    for (const std::string& address : membership.servers()) {
      clients_.push_back(
          std::make_unique<StoreClient>(StoreClientOptions{.address = address,
                                                           .security = options.security,
                                                           .job = membership.job(),
                                                           .member = membership.id(),
                                                           .shared_memory = job_.strategy.shared_memory,
                                                           .patience_seconds = options.patience_seconds,
                                                           .say = options.say,
                                                           .stop = options.stop}));
      clients_.back()->layout();
      access_.servers.push_back(clients_.back().get());
    }
    if (cooperation_of(job_.strategy).kind == Cooperation::Kind::rounds)
      access_.next_round = [this] { return membership_.next_round(); };
    tell_threads(job_, nullptr, {options.say, [&options](const std::string& text) {
                                   if (options.say) options.say("warning: " + text);
                                 }});
    session_ = job_worker_session(job_, data_->spec(), access_, {options.say, options.say});
  }

  void run() {
    while (membership_.wait_for_work()) work_on_epoch();
  }

  /// Records the time from joining until ready for work: opening the data, compiling the graphs.
  void prepared(double seconds) { preparing_ = seconds; }

 private:
  struct Entry {
    uint64_t lease;
    int64_t step;
  };

  /// Works until there is no more work now: at the end of an epoch, or while other workers finish theirs.
  void work_on_epoch() {
    const auto start = Clock::now();
    session_->pull();
    parts_.clear();
    entries_.clear();
    next_ = 0;
    if (!take_lease()) return;
    const uint32_t epoch = epoch_;
    loader_.start(batches_.begin(epoch));
    while (!membership_.lost()) {
      while (entries_.size() - next_ <= static_cast<size_t>(job_.data.prefetch) && !held_ && take_lease())
        loader_.extend();
      const Batch* batch = loader_.next();
      if (batch == nullptr) break;
      if (preparing_) tell_prepared(seconds_since(start));
      train(*batch, entries_[next_++]);
    }
    if (!pending_.empty() && !membership_.lost())
      settle(session_->flush(inputs_of(epoch, pending_.back().step)));
    pending_.clear();
  }

  /// Returns false if there is no work left in this epoch.
  bool take_lease() {
    std::optional<Lease> lease = held_ ? std::exchange(held_, {}) : membership_.lease();
    if (!lease) return false;
    check_lease(*lease, steps_per_epoch_, job_parts(job_));
    if (next_ < entries_.size() && lease->epoch != epoch_) {
      held_ = lease;  // the next epoch has begun: finish this one first
      return false;
    }
    epoch_ = lease->epoch;
    for (int64_t step = lease->begin; step < lease->end; ++step) {
      parts_.add(step, lease->part);
      entries_.push_back({lease->id, step});
    }
    return true;
  }

  void tell_prepared(double seconds) {
    if (options_.say)
      options_.say(
          fmt::format("has parameters and data, {:.2f} s after it joined (excluding the wait for work)",
                      *preparing_ + seconds));
    preparing_.reset();
  }

  StepInputs inputs_of(uint32_t epoch, int64_t step) const {
    const int64_t number = static_cast<int64_t>(epoch) * steps_per_epoch_ + step + 1;
    return {static_cast<float>(telar::learning_rate(schedule_, number)), number, epoch, 1};
  }

  void train(const Batch& batch, const Entry& entry) {
    membership_.wait_for_slowest();
    const auto start = Clock::now();
    StepInputs inputs = inputs_of(batch.epoch, entry.step);
    inputs.samples = std::max<int64_t>(1, batch.size());  // for this worker's own update
    const StepResult result = session_->train(view_of(batch), inputs);
    pending_.push_back({entry.lease, entry.step, batch.size(), result.metrics, 0, seconds_since(start)});
    if (!result.finite) fail(batch, inputs);
    settle(result);
  }

  /// Reports to the coordinator the outcome of the parts that were trained since the last push.
  void settle(const StepResult& result) {
    if (result.lost_updates > 0 && options_.say)
      options_.say(fmt::format("a restarted parameter server has lost {} updates", result.lost_updates));
    if (result.fate == StepResult::Fate::pending) return;
    for (PartDone& part : pending_) {
      part.staleness = result.staleness;
      if (result.fate == StepResult::Fate::used) {
        membership_.done(part);
      } else {
        membership_.give_back(part.lease, part.step);
      }
    }
    pending_.clear();
  }

  [[noreturn]] void fail(const Batch& batch, const StepInputs& inputs) {
    const std::string sentence = fmt::format(
        "the loss is not finite at step {} (epoch {}); it was first seen in {}; try a lower learning rate than {}, or check the data",
        inputs.step, batch.epoch + 1, session_->find_non_finite(view_of(batch), inputs),
        inputs.learning_rate);
    membership_.fail_all(sentence);
    throw run_error("{}", sentence);
  }

  const WorkOptions& options_;
  Membership& membership_;
  Job job_;
  DatasetPtr data_;
  LeasedParts parts_;
  DatasetBatches batches_;
  Loader loader_;
  int64_t steps_per_epoch_;
  Schedule schedule_;
  std::vector<std::unique_ptr<StoreClient>> clients_;
  StoreAccess access_;
  std::unique_ptr<Session> session_;

  uint32_t epoch_ = 0;
  std::vector<Entry> entries_;  ///< in the order of parts_
  size_t next_ = 0;             ///< the entry that the loader returns next
  std::optional<Lease> held_;   ///< a lease of the next epoch
  std::vector<PartDone> pending_;
  std::optional<double> preparing_;  ///< seconds; empty once it is reported
};

}  // namespace

void work(const WorkOptions& options) {
  std::string job;
  for (bool again = true; again;) {
    Membership membership({.coordinator = options.coordinator,
                           .security = options.security,
                           .patience_seconds = options.patience_seconds,
                           .stop = options.stop,
                           .say = options.say,
                           .job = job});
    job = membership.job();
    if (options.say) options.say(fmt::format("joined {} as worker {}", options.coordinator, membership.id()));
    const auto joined = Clock::now();
    Worker worker(options, membership,
                  cluster_description_from_json(membership.description(), "the coordinator"));
    worker.prepared(seconds_since(joined));
    worker.run();
    again = membership.lost();
    if (options.say) options.say(again ? "removed by the coordinator; joining again" : "the run is over");
  }
}

}  // namespace telar
