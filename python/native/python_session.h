#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "python/native/index_limits.h"
#include "python/native/model.h"
#include "python/native/values.h"
#include "telar/comm/processes.h"
#include "telar/nn/training_step.h"
#include "telar/runtime/session.h"
#include "telar/strategy/strategy.h"

namespace telar::python {

/// Where a process's part of a batch is among those of all processes of a group.
struct PlaceInBatch {
  int64_t before = 0;  ///< samples before it
  int64_t all = 0;     ///< of the batch
};

/// A session, and which inputs it takes. With a strategy that has servers it is the coordinator's session: it
/// has the state, evaluates and predicts, and workers make the steps (python/native/epochs.h).
class PythonSession {
 public:
  /// `threads`: of all workers on CPUs together; 0: those of this process. `devices`: names as in a job, one
  /// for all workers or one for each, all of them CPUs or all GPUs. `processes`: that train together, each
  /// with the workers of the strategy and a part of each batch; null: there is only this one. Throws
  /// Error (user) for options that do not fit, and for devices that are not there.
  PythonSession(const PythonModel& model, const StepOptions& options, const StrategyType& type,
                const Attributes& given, const std::vector<std::string>& devices, int threads, int servers,
                uint64_t seed, std::shared_ptr<Processes> processes);
  /// Without Python's lock, because the workers' threads may need it to end.
  ~PythonSession();
  PythonSession(const PythonSession&) = delete;
  PythonSession& operator=(const PythonSession&) = delete;

  Session& session() const { return *session_; }
  const std::vector<BatchTensor>& inputs() const { return inputs_; }
  /// Of the workers. Each runs on the cluster's device alone if the strategy has servers.
  const Program& program() const { return program_; }
  const Cluster& cluster() const { return cluster_; }
  int64_t workers() const { return workers_; }
  bool has_servers() const { return has_servers_; }
  uint64_t seed() const { return seed_; }

  /// The batch that these arrays are; they must outlive it, and another call ends it. Without ids, the
  /// samples are 0, 1, …: a model may draw random numbers by sample in evaluation, too. Throws Error (user)
  /// for arrays of another form, and for indices that the model does not know.
  BatchView batch_of(const nanobind::dict& arrays, const std::optional<IdArray>& samples);

  /// Whether some processes of the group compute the same samples, as the stages of a pipeline do.
  bool repeats_samples() const;
  /// `sizes`, `checksums`: of what each process gives of a batch, in rank order. Throws Error (user) in all
  /// processes if it cannot be trained on so.
  PlaceInBatch place_in_batch(const std::vector<int64_t>& sizes,
                              const std::vector<std::string>& checksums) const;

  /// The number of updates by which the parameters came to what they are; the servers' next one has the
  /// number after it.
  int64_t updates() const { return updates_; }
  void set_updates(int64_t updates) { updates_ = updates; }

 private:
  void require_known(const std::string& input, const AnyArray& array) const;

  std::shared_ptr<const ExternalModel> external_;  // outlives the sessions
  std::shared_ptr<Processes> processes_;           // outlive it, too
  bool has_servers_;
  int64_t workers_;
  uint64_t seed_;
  Cluster cluster_;
  Program program_;
  std::unique_ptr<Session> session_;
  int64_t updates_ = 0;
  std::vector<BatchTensor> inputs_;
  IndexLimits limits_;
  std::vector<int64_t> ids_;  // of a batch without
};

}  // namespace telar::python
