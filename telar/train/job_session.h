#pragma once

#include <functional>
#include <memory>
#include <string>

#include "telar/data/dataset.h"
#include "telar/nn/schedule.h"
#include "telar/nn/training_step.h"
#include "telar/runtime/session.h"
#include "telar/train/job.h"

namespace telar {

/// The parts of the engine that a job asks for, each made from its section.

/// Throws Error (user): a model that does not fit the samples, a loss that does not fit the labels.
Model job_model(const Job& job, const SampleSpec& spec);
StepOptions job_step_options(const Job& job, const SampleSpec& spec);
Schedule job_schedule(const Job& job, int64_t steps_per_epoch);

/// The replicas as devices; threads that the job leaves open are this machine's, divided. `processes`: those that train
/// together; null when this one is alone.
Cluster job_cluster(const Job& job, const Processes* processes = nullptr);

/// Whether the stages of a pipeline are balanced by times that are measured now, or by an estimate.
enum class Costs : uint8_t { measured, estimated };

/// The training step rewritten for the job's strategy and cluster.
Program job_program(const Job& job, const SampleSpec& spec, const Processes* processes = nullptr,
                    Costs costs = Costs::measured);
/// As in SessionOptions.
struct SessionTalk {
  std::function<void(const std::string&)> say;
  std::function<void(const std::string&)> warn;
};

/// The session that trains; with parameter servers the coordinator's, which evaluates, and holds what the servers hold.
std::unique_ptr<Session> job_session(const Job& job, const SampleSpec& spec, Processes* processes = nullptr,
                                     const SessionTalk& talk = {});

/// Of a program with parameter servers what their coordinator runs: no training, and the servers' update as its own, so that its
/// session has their state.
Program coordinator_program(Program program);

/// The session of a worker with parameter servers. `store` must outlive it.
std::unique_ptr<Session> job_worker_session(const Job& job, const SampleSpec& spec, const StoreAccess& store,
                                            const SessionTalk& talk = {});

/// Equal parts of each global batch, each a worker's, that together make one update; 1 when a worker takes whole batches.
int64_t job_parts(const Job& job);

}  // namespace telar
