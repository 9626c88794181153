#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace telar {

/// Something that took time, for a trace.
struct TraceEvent {
  std::string name;      ///< "layer1.0.conv1 conv2d"
  std::string category;  ///< "forward"
  double start = 0;      ///< microseconds since the beginning of the trace
  double duration = 0;   ///< microseconds
};

/// Events one below the other: a replica, or its communication. Two events of a row either lie apart or one within the other.
struct TraceRow {
  std::string name;
  std::vector<TraceEvent> events;
};

/// One process of a run, as trace events ("X" and "M" of Chrome's Trace Event Format), separated by commas; `process` is its number.
std::string trace_events_text(const std::string& name, int process, std::span<const TraceRow> rows);

/// A file for chrome://tracing and https://ui.perfetto.dev: a JSON object with the events of all processes, and what is to be known of
/// them under "otherData".
std::string trace_file_text(std::span<const std::string> processes,
                            const std::vector<std::pair<std::string, std::string>>& other);

}  // namespace telar
