#pragma once

#include "telar/data/source.h"
#include "telar/train/data_decision.h"
#include "telar/train/data_record.h"
#include "telar/train/job.h"
#include "telar/train/run.h"

namespace telar {

struct RunData {
  Datasets data;
  DataDecision decision;  ///< for processes that come later
  DataRecord record;      ///< of data that are spread over processes; otherwise the run adds it
};

/// Opens the data of a run, in each of its processes. What is decided about a stream is then in the job. A
/// job that is too large for this machine is refused, before the samples are read if the job alone says so.
/// Throws Error.
RunData open_run_data(Job& job, const RunOptions& options);

}  // namespace telar
