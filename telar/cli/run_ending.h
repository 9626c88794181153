#pragma once

#include <string>

#include "telar/observe/progress.h"
#include "telar/train/run.h"

namespace telar::cli {

/// How the progress of a run is shown on standard output.
ProgressOptions progress_of(const Job& job, bool quiet);

/// Says how a run has ended, and writes its summary to a file if one is named.
void say_ended(const RunSummary& summary, const std::string& file, bool quiet);

/// In the process that has led the run, at last: if its exit code is 1 because a checkpoint is not stored
/// (exit_code_of), so is that of processes that have come and not taken part. Does not return then.
void end_with_newcomers(const RunSummary& summary, ElasticProcesses* elastic);

}  // namespace telar::cli
