#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "telar/io/output_file.h"

namespace telar {

/// A name and its value in a line of metrics. NaN and infinities, which JSON lacks, are written as null.
using MetricField = std::pair<std::string, std::variant<int64_t, double, std::string>>;

/// `metrics.jsonl` of a run: one JSON object a line, each in the hands of the system when append() returns.
///
///     log.append({{"step", step}, {"epoch", epoch}, {"loss", loss}});
class MetricsLog {
 public:
  /// Starts a new log, or goes on at the end of the one that exists.
  explicit MetricsLog(std::filesystem::path path) : file_(std::move(path), OutputFile::Mode::append) {}

  void append(const std::vector<MetricField>& fields);
  /// Waits until the lines are on the storage device.
  void sync() { file_.sync(); }

 private:
  OutputFile file_;
};

/// For a run that resumes after `step`: removes from the log the lines whose "step" is later, and lines that are
/// no JSON object (a last one cut by a power loss). The log is replaced as a whole or left as it is. Without a log
/// there is nothing to do.
void discard_metrics_after(const std::filesystem::path& path, int64_t step);

}  // namespace telar
