#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "telar/data/dataset.h"
#include "telar/nn/metrics.h"
#include "telar/nn/schedule.h"
#include "telar/nn/training_step.h"
#include "telar/runtime/session.h"
#include "telar/train/given_values.h"
#include "telar/train/job.h"
#include "telar/train/trainer.h"

namespace telar {

/// The parts of the engine that a job describes, each created from its section.

/// Throws Error (user) if the model does not fit the samples, or the loss does not fit the labels.
Model job_model(const Job& job, const SampleSpec& spec);
StepOptions job_step_options(const Job& job, const SampleSpec& spec);
/// The step of one device. Throws Error (user) as both do; also for a pattern of optimizer.factors that
/// matches no parameter, or whose factor is no number of at least 0.
TrainingStep job_step(const Job& job, const SampleSpec& spec);
/// What follows from the metrics of a session of the job.
Figures job_figures(const Job& job, const SampleSpec& spec, const Session& session);
Schedule job_schedule(const Job& job, int64_t steps_per_epoch);

/// The devices of the replicas. If the job does not set the number of threads, this machine's cores are
/// divided. `processes`: the processes that train together; null if there is only this one.
Cluster job_cluster(const Job& job, const Processes* processes = nullptr);

/// Whether a strategy that balances its workers does so by measured times or by estimates.
enum class Costs : uint8_t { measured, estimated };

/// The training step, rewritten for the job's strategy and cluster. `processes`: as for job_cluster(); all of
/// them call it. Or their number, for a program that is not run here.
Program job_program(const Job& job, const SampleSpec& spec, int processes);
Program job_program(const Job& job, const SampleSpec& spec, Processes* processes = nullptr,
                    Costs costs = Costs::measured);
/// See SessionOptions.
struct SessionTalk {
  std::function<void(const std::string&)> say;
  std::function<void(const std::string&)> warn;
};

/// The session that trains. With parameter servers: the coordinator's session, which evaluates the model and
/// holds the same state as the servers.
std::unique_ptr<Session> job_session(const Job& job, const SampleSpec& spec, Processes* processes = nullptr,
                                     const SessionTalk& talk = {});

/// A worker's session in a run with parameter servers. `store` must outlive it.
std::unique_ptr<Session> job_worker_session(const Job& job, const SampleSpec& spec, const StoreAccess& store,
                                            const SessionTalk& talk = {});

/// Gives the session the values with which the job begins (model.weights), if it has some. Throws Error
/// (user).
std::optional<GivenValues> take_given_values(const Job& job, const SampleSpec& spec, Session& session);

/// This process's part of each batch.
Part own_part(const Session& session, const Processes* processes);
/// What the job says of its batches and their figures, in this process: not how long it trains, nor with
/// which rates.
TrainerOptions job_batches(const Job& job, const SampleSpec& spec, const Session& session,
                           const Processes* processes);

/// The number of equal parts, one per worker, into which a global batch is divided for one update. 1 if each
/// worker processes whole batches.
int64_t job_parts(const Job& job);

}  // namespace telar
