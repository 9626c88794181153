#pragma once

#include <string>

#include "telar/bench/result.h"
#include "telar/cli/command_line.h"

namespace telar::cli {

/// The files that an experiment writes beside its text; empty: not asked for.
struct ResultFiles {
  std::string json;
  std::string csv;
  std::string html;
};

/// --json, --csv and --html of a verb; a file that could not be written is a mistake before anything is measured. `files` must live as long as the verb's action.
void add_result_files(Verb& verb, ResultFiles& files);

/// Prints a result, and writes the files that were asked for. Throws Error (run) for one that cannot be written.
void publish(const bench::Result& result, const ResultFiles& files);

}  // namespace telar::cli
