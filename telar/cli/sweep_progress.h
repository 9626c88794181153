#pragma once

#include <filesystem>
#include <string>

#include "telar/bench/sweep_watch.h"
#include "telar/cli/experiment.h"

namespace telar::cli {

/// The progress of an experiment that trains, on standard error: a line for each training, which a terminal shows growing.
class SweepProgress {
 public:
  SweepProgress();
  void began(const std::string& what);
  void progress(const bench::CurvePoint& newest);
  void ended(const std::string& how);

 private:
  void show(const std::string& text, bool last);
  bool terminal_;
  std::string what_;
};

/// The folder of an experiment's runs: `given`, which must be empty or not there, or the first runs/NAME-N that is free. Throws
/// Error (user) for one that holds something.
std::filesystem::path experiment_folder(const std::string& given, const std::string& name);

/// A watch that shows progress, stops when `stop_requested` says so, and after each training writes FOLDER/result.json and FOLDER/report.html,
/// so that what was measured stays whatever happens. `progress` must outlive it.
bench::SweepWatch watch_sweep(SweepProgress& progress, std::function<bool()> stop_requested,
                              const std::filesystem::path& folder);

/// publish(), and where the runs lie, when there are any.
void publish_runs(const bench::Result& result, const ResultFiles& files, const std::filesystem::path& folder);

}  // namespace telar::cli
