#pragma once

#include <string>

#include "telar/observe/progress.h"
#include "telar/train/run.h"

namespace telar::cli {

/// How the progress of a run is shown on standard output.
ProgressOptions progress_of(const Job& job, bool quiet);

/// Says how a run has ended, and writes its summary to a file if one is named.
void say_ended(const RunSummary& summary, const std::string& file, bool quiet);

}  // namespace telar::cli
