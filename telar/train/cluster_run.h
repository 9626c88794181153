#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "telar/comm/members/coordinator.h"
#include "telar/comm/store/store_chains.h"
#include "telar/comm/store/store_client.h"
#include "telar/data/streams/stream.h"
#include "telar/train/cluster_children.h"
#include "telar/train/data_decision.h"
#include "telar/train/drain_patience.h"
#include "telar/train/job.h"
#include "telar/train/local_processes.h"
#include "telar/train/run_losses.h"
#include "telar/train/stream_work.h"
#include "telar/train/trainer.h"
#include "telar/train/worker_policy.h"

namespace telar {

/// No copy of what a parameter server held is left, and the run goes back to its newest checkpoint.
class CopiesLost : public Error {
 public:
  CopiesLost(const std::string& why, std::filesystem::path folder, std::string coordinator)
      : Error(Kind::run, why), folder_(std::move(folder)), coordinator_(std::move(coordinator)) {}
  const std::filesystem::path& folder() const { return folder_; }  ///< of the run
  /// Where workers of other hosts look for the next one; empty: there are none.
  const std::string& coordinator() const { return coordinator_; }

 private:
  std::filesystem::path folder_;
  std::string coordinator_;
};

/// The servers and the coordinator of a run with parameter servers, and its local processes.
class ClusterRun final : public StepSource {
 public:
  ClusterRun(const Job& job, const SampleSpec& spec, const DataDecision& data, ClusterOptions options);
  ~ClusterRun() override;

  /// Sends the session's state to the servers, then admits workers. `state`: of the training that has led to
  /// it.
  void start(const Session& session, const TrainingState& state);

  void begin(const StepRange& range) override;
  std::vector<CompletedStep> wait() override;
  bool finished() override;
  void drain() override;
  int64_t steps_done() override;
  Position position() override;
  std::optional<int64_t> fetch(Session& session) override;

  /// The number of updates between a worker's pull and its push: the mean over all pushes.
  double staleness() const;
  std::optional<RunLosses> losses() const override;
  /// Members that have asked for work, without spares.
  int64_t working() const;
  /// The number of workers that the load needs, if it follows the load.
  std::optional<int64_t> wanted() const;

 private:
  std::function<void(const std::string&)> note();
  void tell();
  std::string description(const TrainingState& state) const;
  bool starts_workers() const { return options_.coordinate.empty(); }
  std::string server_listen() const;
  void start_servers();
  void start_workers(int64_t count);
  void extend_work();
  void follow_load();
  void connect();
  void connect_to_chains();
  void moved(size_t server, const StoreHead& head);
  void server_joins(const std::string& address);
  std::filesystem::path joined_servers() const { return options_.folder / "joined_servers"; }
  void watch_for_stop(const std::stop_token& over);
  bool server_away() const;
  void check_servers();
  void check_copies();
  std::string lost_server();
  std::string how_to_continue() const;
  std::vector<Store*> stores() const;

  std::mutex notes_mutex_;          ///< guards notes_
  std::vector<std::string> notes_;  ///< messages from any thread, until the training thread forwards them
  bool log_failed_ = false;
  const Job& job_;
  const SampleSpec& spec_;
  const DataDecision& data_;
  ClusterOptions options_;
  std::string id_;
  Program program_;  ///< of a worker
  std::vector<std::string> addresses_;
  std::vector<std::unique_ptr<StoreClient>> clients_;
  std::mutex heads_mutex_;        ///< guards heads_ and the way to the coordinator
  std::vector<StoreHead> heads_;  ///< of the servers; none: their blocks have no copies
  std::unique_ptr<LocalProcesses> processes_;
  std::unique_ptr<Coordinator> coordinator_;
  DrainPatience patience_;
  std::atomic<bool> connected_{false};   ///< clients_ does not change any more
  std::stop_source give_up_;             ///< ends all waits for servers
  std::unique_ptr<StoreChains> chains_;  ///< null: the servers' blocks have no copies
  std::mutex joining_mutex_;             ///< guards ending_
  bool ending_ = false;                  ///< no server joins any more
  std::optional<StreamWork> work_;       ///< of a stream
  std::optional<WorkerPolicy> policy_;
  WorkerLoadMeter meter_;
  std::chrono::steady_clock::time_point measured_ = {};
  int64_t waiting_steps_ = 0;  ///< that exist and have not begun
  double staleness_sum_ = 0;
  int64_t staleness_count_ = 0;
  RunLosses before_;  ///< of the training that has led to the state at the start
  std::jthread stop_watch_;
};

}  // namespace telar
