#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "telar/comm/members/local_coordinator.h"
#include "telar/comm/store/local_store.h"
#include "telar/data/dataset.h"
#include "telar/data/streams/leased_batches.h"
#include "telar/graph/program.h"
#include "telar/runtime/session.h"
#include "telar/train/trainer.h"

namespace telar {

struct ThreadClusterOptions {
  int64_t workers = 2;  ///< beside the backups of the program
  uint64_t seed = 0;    ///< as in SessionOptions
  /// Connects a member (0: the coordinator) to server `server` of the program, for servers elsewhere: a
  /// StoreClient. It is called by the member's thread. Empty: the servers are in this process.
  std::function<std::unique_ptr<Store>(size_t server, uint32_t member)> connect = {};
  std::function<void(const std::string&)> say = {};  ///< messages of the workers, from any thread
};

/// The workers of a program with parameter servers, as threads of this process, and its servers. It serves
/// any network, whoever built it: a server receives its ServerProgram, and a worker has the program itself.
///
///     const Cluster cluster{.devices = {DeviceSpec{}}, .servers = 2};
///     const Program program = make_strategy("sync_ps").rewrite(make_training_step(model, step), cluster);
///     Session session(coordinator_program(program), cluster, {.seed = 1});
///     ThreadCluster workers(program, cluster, *train, options, {.workers = 2, .seed = 1});
///     workers.start(session);
///     Trainer trainer(session, options);
///     trainer.make_steps_with(workers);
///     trainer.fit(*train, validation.get());
class ThreadCluster final : public StepSource {
 public:
  /// `cluster`: of one worker. `options`: those of the Trainer. All references must outlive this object.
  /// Throws Error (user) for a program without servers, and for less than one worker.
  ThreadCluster(const Program& program, const Cluster& cluster, const Dataset& train,
                const TrainerOptions& options, ThreadClusterOptions threads = {});
  /// Makes what a worker reads the parts of batches from, of which each global batch has `parts`.
  using MakeBatches = std::function<std::unique_ptr<LeasedBatches>(int64_t parts)>;
  /// The same with batches from elsewhere, `steps` in an epoch.
  ThreadCluster(const Program& program, const Cluster& cluster, MakeBatches batches, int64_t steps,
                const TrainerOptions& options, ThreadClusterOptions threads = {});
  /// Ends the workers.
  ~ThreadCluster() override;

  /// Sends the session's state to the servers, then starts the workers. `state`: of the training that has led
  /// to it, if it is continued.
  void start(const Session& session, const TrainingState& state = {});

  void begin(const StepRange& range) override;
  std::vector<CompletedStep> wait() override;
  bool finished() override;
  void drain() override;
  int64_t steps_done() override;
  std::optional<int64_t> fetch(Session& session) override;

 private:
  std::unique_ptr<Store> connect(size_t server, uint32_t member);
  std::vector<Store*> stores() const;
  void work(WorkSource& source);

  const Program& program_;
  const Cluster& cluster_;
  const MakeBatches make_batches_;
  const int64_t steps_;  // of an epoch
  const TrainerOptions options_;
  const ThreadClusterOptions threads_;
  std::stop_source stop_;
  std::vector<std::unique_ptr<LocalStoreServer>> servers_;  ///< empty: they are elsewhere
  std::vector<std::unique_ptr<Store>> own_;                 ///< the coordinator's access to them
  std::optional<LocalCoordinator> coordinator_;
  std::vector<std::thread> workers_;
};

}  // namespace telar
