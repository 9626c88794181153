#pragma once

#include <string>

#include "telar/bench/result.h"
#include "telar/cli/command_line.h"
#include "telar/observe/stop_request.h"

namespace telar::cli {

/// What an experiment prints at Ctrl-C.
inline constexpr StopRequest::Messages kExperimentStops = {
    "stopping after the current measurement or training; the results so far are kept; a second Ctrl-C quits at once\n",
    "quitting at once; only results that are in files already are kept\n"};

/// The files that an experiment writes in addition to its text. An empty path: the file was not requested.
struct ResultFiles {
  std::string json;
  std::string csv;
  std::string html;
};

/// Adds --json, --csv and --html to a verb. A file that cannot be written is reported as a user error before
/// anything is measured. `files` must outlive the verb's action.
void add_result_files(Verb& verb, ResultFiles& files);

/// Prints a result, and writes the requested files. Throws Error (run) for a file that cannot be written.
void publish(const bench::Result& result, const ResultFiles& files);

}  // namespace telar::cli
