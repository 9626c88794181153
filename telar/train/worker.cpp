#include "telar/train/worker.h"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>

#include "telar/comm/members/membership.h"
#include "telar/comm/store/store_client.h"
#include "telar/core/clock.h"
#include "telar/core/error.h"
#include "telar/observe/process.h"
#include "telar/train/cluster_description.h"
#include "telar/train/data_decision.h"
#include "telar/train/job_loader.h"
#include "telar/train/job_reader.h"
#include "telar/train/job_session.h"
#include "telar/train/job_strategy.h"
#include "telar/train/job_stream.h"
#include "telar/train/job_workers.h"
#include "telar/train/worker_loop.h"

namespace telar {

namespace {

using Clock = std::chrono::steady_clock;

/// The job on this host.
Job job_here(const ClusterDescription& description, const std::vector<std::string>& overrides) {
  return changed_job(description.job, "the coordinator's job", overrides);
}

/// The training samples of a worker, and the parts of them that it leases.
class WorkerSamples {
 public:
  WorkerSamples(Job& job, const ClusterDescription& description, const WorkOptions& options) {
    const int64_t batch = job.training.batch;
    const int64_t parts = job_parts(job);
    if (trains_on_stream(job.data)) {
      require_as_decided(job.data, description.data);
      const StreamPtr stream = open_job_stream(
          job, {.decided = true, .warn = options.say, .stop_requested = [stop = options.stop] {
                  return stop.stop_requested();
                }});
      stream->recognise(description.reached);
      leased_ = std::make_unique<LeasedStream>(stream, parts);
      spec_ = stream->spec();
      steps_ = steps_of_epoch(job, *stream);
      return;
    }
    const auto seed = static_cast<uint64_t>(job.training.seed);
    data_ = open_train_dataset_as_decided(job.data, seed, description.data, available_threads());
    leased_ = std::make_unique<LeasedDataset>(*data_, batch, seed, job.data.shuffle, parts,
                                              samples_together(job, parts));
    spec_ = data_->spec();
    steps_ = (data_->size() + batch - 1) / batch;
  }

  const SampleSpec& spec() const { return spec_; }
  LeasedBatches& leased() { return *leased_; }
  int64_t steps() const { return steps_; }  ///< of an epoch

 private:
  DatasetPtr data_;  ///< null: they are a stream
  std::unique_ptr<LeasedBatches> leased_;
  SampleSpec spec_;
  int64_t steps_ = 0;
};

/// The options of the training that a worker needs.
TrainerOptions worker_options(const Job& job, int64_t steps_per_epoch) {
  TrainerOptions options;
  options.schedule = job_schedule(job, steps_per_epoch);
  options.loader_threads = loader_threads(job, nullptr);
  options.prefetch = static_cast<int>(job.data.prefetch);
  return options;
}

/// One membership: from joining to the end of the run, or until the coordinator has removed this worker.
class Worker {
 public:
  Worker(const WorkOptions& options, Membership& membership, const ClusterDescription& description)
      : membership_(membership),
        stopped_(options.stop, [this] { ending_.request_stop(); }),
        lost_(membership.until_lost(), [this] { ending_.request_stop(); }),
        job_(job_here(description, options.overrides)),
        samples_(job_, description, options) {
    const bool copies = !membership.heads().empty();
    for (size_t s = 0; s < membership.servers().size(); ++s) {
      clients_.push_back(std::make_unique<StoreClient>(
          StoreClientOptions{.address = membership.servers()[s],
                             .security = options.security,
                             .job = membership.job(),
                             .member = membership.id(),
                             .shared_memory = job_.strategy.shared_memory,
                             // With copies, the coordinator decides first.
                             .patience_seconds = (copies ? 2 : 1) * options.patience_seconds,
                             .tenure = membership.tenures()[s],
                             .shard = copies ? static_cast<uint32_t>(s + 1) : 0,
                             .generation = copies ? membership.heads()[s].generation : 0,
                             .copy = copies ? membership.heads()[s].copy : "",
                             .say = options.say,
                             .stop = ending_.get_token()}));
      access_.servers.push_back(clients_.back().get());
    }
    following_.emplace(membership, [this](const std::vector<StoreHead>& heads) {
      for (size_t s = 0; s < heads.size(); ++s) clients_[s]->move(heads[s]);
    });
    for (Store* server : access_.servers) server->layout();
    tell_threads(job_, nullptr, {options.say, [&options](const std::string& text) {
                                   if (options.say) options.say("warning: " + text);
                                 }});
    session_ = job_worker_session(job_, samples_.spec(), access_, {options.say, options.say});
    const int64_t steps = samples_.steps();
    const bool rounds = cooperation_of(job_.strategy).kind == Cooperation::Kind::rounds;
    loop_.emplace(membership, *session_, samples_.leased(), steps, worker_options(job_, steps),
                  job_parts(job_), options.say, rounds ? &access_ : nullptr);
  }

  /// `preparing`: seconds since it joined.
  void run(double preparing) {
    loop_->prepared(preparing);
    try {
      loop_->run();
    } catch (const Error& error) {
      // Every other worker would meet the same message, or the same topic that takes no dead letters.
      if (trains_on_stream(job_.data) && loop_->cannot_read()) membership_.fail_all(error.what());
      throw;
    }
  }

 private:
  Membership& membership_;
  /// Of the waits for servers: a member without a coordinator does not hear where a server's blocks are.
  std::stop_source ending_;
  std::stop_callback<std::function<void()>> stopped_;
  std::stop_callback<std::function<void()>> lost_;
  Job job_;
  WorkerSamples samples_;
  std::vector<std::unique_ptr<StoreClient>> clients_;
  std::optional<FollowedHeads> following_;  ///< by clients_
  StoreAccess access_;
  std::unique_ptr<Session> session_;
  std::optional<WorkerLoop> loop_;
};

}  // namespace

void work(const WorkOptions& all) {
  std::string job;
  for (bool again = true; again;) {
    std::stop_source leaves;
    std::optional<std::stop_callback<std::function<void()>>> asked(std::in_place, all.stop,
                                                                   [&] { leaves.request_stop(); });
    WorkOptions options = all;
    options.stop = leaves.get_token();
    Membership membership({.coordinator = options.coordinator,
                           .security = options.security,
                           .patience_seconds = options.patience_seconds,
                           .stop = options.stop,
                           .say = options.say,
                           .job = job});
    if (all.stays) asked.reset();
    job = membership.job();
    if (options.say) options.say(fmt::format("joined {} as worker {}", options.coordinator, membership.id()));
    const auto joined = Clock::now();
    try {
      Worker worker(options, membership,
                    cluster_description_from_json(membership.description(), "the coordinator"));
      worker.run(seconds_since(joined));
    } catch (const Error&) {
      // It waits for its servers no longer, or they are those of another coordinator, which it joins next.
      if (!membership.lost() || all.stop.stop_requested()) throw;
    } catch (const ReadStopped&) {
      return;  // before it had begun
    }
    again = membership.lost() && !all.stop.stop_requested();
    if (options.say) options.say(again ? "removed by the coordinator; joining again" : "the run is over");
  }
}

}  // namespace telar
