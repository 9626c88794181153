#include "telar/train/thread_cluster.h"

#include <fmt/format.h>

#include <utility>

#include "telar/core/error.h"
#include "telar/core/memory_limit.h"
#include "telar/runtime/server_state.h"
#include "telar/runtime/server_update.h"
#include "telar/train/work_division.h"
#include "telar/train/worker_loop.h"

namespace telar {

ThreadCluster::ThreadCluster(const Program& program, const Cluster& cluster, const Dataset& train,
                             const TrainerOptions& options, ThreadClusterOptions threads)
    : ThreadCluster(
          program, cluster,
          [&train, options](int64_t parts) {
            return std::make_unique<LeasedDataset>(train, options.batch, options.seed, options.shuffle, parts,
                                                   options.together);
          },
          (train.size() + options.batch - 1) / options.batch, options, std::move(threads)) {}

ThreadCluster::ThreadCluster(const Program& program, const Cluster& cluster, MakeBatches batches,
                             int64_t steps, const TrainerOptions& options, ThreadClusterOptions threads)
    : program_(program),
      cluster_(cluster),
      make_batches_(std::move(batches)),
      steps_(steps),
      options_(options),
      threads_(std::move(threads)) {
  if (program.stores.empty())
    throw user_error("the strategy {} has no parameter servers; train with a session alone",
                     program.strategy);
  if (threads_.workers < 1) throw user_error("{} workers; there must be at least 1", threads_.workers);
  for (size_t s = 0; s < only_store(program).servers.size(); ++s) {
    if (!threads_.connect) servers_.push_back(std::make_unique<LocalStoreServer>(program_updates()));
    own_.push_back(connect(s, 0));
  }
}

ThreadCluster::~ThreadCluster() {
  coordinator_.reset();
  stop_.request_stop();
  for (std::thread& worker : workers_) worker.join();
}

std::unique_ptr<Store> ThreadCluster::connect(size_t server, uint32_t member) {
  return threads_.connect ? threads_.connect(server, member)
                          : servers_[server]->connect(member, stop_.get_token());
}

std::vector<Store*> ThreadCluster::stores() const {
  std::vector<Store*> stores;
  for (const auto& store : own_) stores.push_back(store.get());
  return stores;
}

void ThreadCluster::start(const Session& session, const TrainingState& state) {
  create_servers(only_store(program_), stores());
  write_servers(only_store(program_), stores(), session, updates_before(program_, state));
  coordinator_.emplace(division_of(program_.cooperation, threads_.workers, steps_));
  for (int64_t w = 0; w < threads_.workers + program_.cooperation.backups; ++w) {
    std::shared_ptr<WorkSource> source = coordinator_->join(fmt::format("worker {}", w));
    workers_.emplace_back([this, source = std::move(source)] {
      try {
        work(*source);
      } catch (const std::exception& error) {
        source->fail_all(as_error(error).what());
      }
    });
  }
}

/// What the thread of a worker does.
void ThreadCluster::work(WorkSource& source) {
  std::vector<std::unique_ptr<Store>> stores;
  StoreAccess access;
  for (size_t s = 0; s < own_.size(); ++s) {
    stores.push_back(connect(s, source.id()));
    access.servers.push_back(stores.back().get());
  }
  const int64_t parts = parts_of(program_.cooperation, threads_.workers);
  Session session(program_, cluster_,
                  {.seed = threads_.seed,
                   .store = &access,
                   .typical_batch = std::max<int64_t>(1, options_.batch / parts),
                   .say = threads_.say,
                   .warn = threads_.say});
  const std::unique_ptr<LeasedBatches> batches = make_batches_(parts);
  const bool rounds = program_.cooperation.kind == Cooperation::Kind::rounds;
  WorkerLoop loop(source, session, *batches, steps_, options_, parts, threads_.say,
                  rounds ? &access : nullptr);
  loop.run();
}

void ThreadCluster::begin(const StepRange& range) {
  coordinator_->begin_epoch(static_cast<uint32_t>(range.epoch.epoch), range.first, range.end);
}

std::vector<CompletedStep> ThreadCluster::wait() { return completed(coordinator_->wait(0.1)); }

bool ThreadCluster::finished() { return coordinator_->epoch_finished(); }

void ThreadCluster::drain() { coordinator_->drain(); }

int64_t ThreadCluster::steps_done() { return coordinator_->steps_done(); }

std::optional<int64_t> ThreadCluster::fetch(Session& session) {
  return read_servers(only_store(program_), stores(), session);
}

}  // namespace telar
