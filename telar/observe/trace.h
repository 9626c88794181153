#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace telar {

/// An interval in a trace.
struct TraceEvent {
  std::string name;      ///< "layer1.0.conv1 conv2d"
  std::string category;  ///< "forward"
  double start = 0;      ///< microseconds since the beginning of the trace
  double duration = 0;   ///< microseconds
};

/// A row of events: of a replica, or of its communication. Two events of a row are either disjoint or nested.
struct TraceRow {
  std::string name;
  std::vector<TraceEvent> events;
};

/// Returns the trace events of one process, separated by commas ("X" and "M" of Chrome's Trace Event Format).
/// `process` is its number.
std::string trace_events_text(const std::string& name, int process, std::span<const TraceRow> rows);

/// Returns a file for chrome://tracing and https://ui.perfetto.dev: a JSON object with the events of all
/// processes, and further information under "otherData".
std::string trace_file_text(std::span<const std::string> processes,
                            const std::vector<std::pair<std::string, std::string>>& other);

}  // namespace telar
