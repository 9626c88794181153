#pragma once

#include <filesystem>
#include <string>

#include "telar/bench/sweep_watch.h"
#include "telar/cli/experiment.h"

namespace telar::cli {

/// The progress of an experiment that trains, on standard error: one line per training. On a terminal the
/// line is updated while the training runs.
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

/// The folder of an experiment's runs: `given`, or without one the first runs/NAME-N that does not exist.
/// Throws Error (user) if the folder is not empty.
std::filesystem::path experiment_folder(const std::string& given, const std::string& name);

/// A watch that shows progress and stops when `stop_requested` returns true. After each training it writes
/// FOLDER/result.json and FOLDER/report.html, so that no measurement is lost. `progress` must outlive it.
bench::SweepWatch watch_sweep(SweepProgress& progress, std::function<bool()> stop_requested,
                              const std::filesystem::path& folder);

/// Calls publish(), and prints where the runs are, if there are any.
void publish_runs(const bench::Result& result, const ResultFiles& files, const std::filesystem::path& folder);

}  // namespace telar::cli
