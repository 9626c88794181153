#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "telar/io/output_file.h"

namespace telar {

/// Name and value of one metric in a line: a number, a text, a list or the rows of a matrix. NaN and
/// infinities, which JSON lacks, are written as null.
using MetricField = std::pair<std::string, std::variant<int64_t, double, std::string, std::vector<double>,
                                                        std::vector<std::vector<double>>>>;

/// The file `metrics.jsonl` of a run: one JSON object a line. When append() returns, the system has the line.
///
///     log.append({{"step", step}, {"epoch", epoch}, {"loss", loss}});
class MetricsLog {
 public:
  /// Creates a new log, or appends to an existing one.
  explicit MetricsLog(std::filesystem::path path) : file_(std::move(path), OutputFile::Mode::append) {}

  void append(const std::vector<MetricField>& fields);
  /// Waits until the lines are on the storage device.
  void sync() { file_.sync(); }

 private:
  OutputFile file_;
};

/// What a log has last.
struct LoggedSoFar {
  int64_t step = 0;   ///< of the last line of a step; 0: there is none
  int64_t epoch = 0;  ///< the same of an epoch
  bool test = false;  ///< whether there is one of the test samples
};

/// For another process that goes on with a log: removes a last line that was not written to its end. Nothing
/// is in a log that does not exist. Throws Error.
LoggedSoFar go_on_with_metrics(const std::filesystem::path& path);

/// For a run that resumes after `step`: removes from the log all lines with a later "step" and all lines that
/// are not JSON objects (a power loss may cut the last one). Replaces the log as a whole or leaves it
/// unchanged. Does nothing without a log.
void discard_metrics_after(const std::filesystem::path& path, int64_t step);

}  // namespace telar
