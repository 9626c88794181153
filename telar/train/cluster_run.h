#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "telar/comm/members/coordinator.h"
#include "telar/comm/store/store_client.h"
#include "telar/train/job.h"
#include "telar/train/local_processes.h"
#include "telar/train/trainer.h"

namespace telar {

struct ClusterOptions {
  /// Where workers of other hosts join: HOST:PORT. Empty: servers (unless the job has addresses) and workers are started here.
  std::string coordinate;
  Security security;
  std::string program;           ///< that is started as `PROGRAM serve …` and `PROGRAM work …`
  std::filesystem::path folder;  ///< the run's: logs/, servers/ and the run's id are kept there
  std::function<void(const std::string&)> say;  ///< told what happens; called by the thread that trains
  int64_t epoch_steps = 0;                      ///< batches of an epoch
};

/// The servers, the coordinator and, on one machine, the processes of a run with parameter servers.
class ClusterRun final : public RemoteSteps {
 public:
  ClusterRun(const Job& job, const SampleSpec& spec, ClusterOptions options);
  ~ClusterRun() override;

  /// Gives the servers the session's state, and lets workers in.
  void start(const Session& session);

  void begin_epoch(uint32_t epoch, int64_t first, int64_t steps) override;
  std::vector<StepDone> wait() override;
  bool epoch_finished() override;
  void drain(bool stopping) override;
  int64_t steps_done() override;
  void fetch(Session& session) override;

  /// Mean over the workers' pushes, of updates between a worker's pull and its push.
  double staleness() const;

 private:
  std::function<void(const std::string&)> note();
  void tell();
  int64_t lease_steps() const;
  void start_servers();
  void start_workers();
  void connect();

  std::mutex notes_mutex_;  ///< guards notes_
  std::vector<std::string>
      notes_;  ///< what happened, told from any thread, until the thread that trains passes it on
  const Job& job_;
  const SampleSpec& spec_;
  ClusterOptions options_;
  std::string id_;
  ServerSide servers_;
  std::vector<std::string> addresses_;
  std::vector<std::unique_ptr<StoreClient>> clients_;
  std::unique_ptr<LocalProcesses> processes_;
  std::unique_ptr<Coordinator> coordinator_;
  std::chrono::steady_clock::time_point draining_since_ = {};
  double staleness_sum_ = 0;
  int64_t staleness_count_ = 0;
};

}  // namespace telar
