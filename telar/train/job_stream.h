#pragma once

#include <functional>
#include <string>
#include <vector>

#include "telar/comm/processes.h"
#include "telar/data/streams/stream.h"
#include "telar/train/job.h"
#include "telar/train/stream_evaluation.h"

namespace telar {

/// Whether the training samples of a job arrive one after another (SourceType::open_stream).
bool trains_on_stream(const DataJob& data);

/// With what the features of a job's messages are normalised.
FeatureScale message_scale(const DataJob& data);

/// How a job's stream is opened.
struct StreamOpening {
  /// Those that train together; null: this one alone. Rank 0 decides where the stream begins and ends.
  Processes* processes = nullptr;
  /// Of the run that is resumed, if it is; null otherwise. It begins where that one began.
  const DataJob* before = nullptr;
  /// The job is one that another process has opened before and that contains what it decided.
  bool decided = false;
  std::function<void(const std::string&)> warn = {};  ///< called from threads that read
  std::function<bool()> stop_requested = {};          ///< the same
};

/// Opens the stream of a settled job (settle_workers()), with this process's part of each batch. Where it
/// begins and, if it has an end, ends is written into the job as offsets, so that the job as run contains
/// them. Throws Error.
StreamPtr open_job_stream(Job& job, const StreamOpening& opening = {});

/// After so many seconds a batch is closed although it is not full; 0: never.
double linger_seconds(const DataJob& data);

/// The steps of an epoch: all batches, or as many as the job says.
int64_t steps_of_epoch(const Job& job, const Stream& stream);

/// How the batches of a job's stream are evaluated. `metrics`: of its steps.
StreamEvaluationOptions job_evaluation(const Job& job, const std::vector<std::string>& metrics);

/// Throws Error (user), with the key's position, if the section "training" does not suit the source.
void check_stream_keys(const Job& job, const std::function<std::string(const std::string& key)>& where);

}  // namespace telar
