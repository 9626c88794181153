#include "telar/observe/trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

namespace telar {

namespace {

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string metadata(const char* what, int process, size_t row, const std::string& arguments) {
  return fmt::format(R"({{"name":"{}","ph":"M","pid":{},"tid":{},"args":{{{}}}}})", what, process, row,
                     arguments);
}

}  // namespace

std::string trace_events_text(const std::string& name, int process, std::span<const TraceRow> rows) {
  std::vector<std::string> lines = {
      metadata("process_name", process, 0, "\"name\":" + quoted(name)),
      metadata("process_sort_index", process, 0, fmt::format("\"sort_index\":{}", process))};
  for (size_t row = 0; row < rows.size(); ++row) {
    lines.push_back(metadata("thread_name", process, row, "\"name\":" + quoted(rows[row].name)));
    lines.push_back(metadata("thread_sort_index", process, row, fmt::format("\"sort_index\":{}", row)));
    for (const TraceEvent& event : rows[row].events) {
      lines.push_back(
          fmt::format(R"({{"name":{},"cat":{},"ph":"X","ts":{:.3f},"dur":{:.3f},"pid":{},"tid":{}}})",
                      quoted(event.name), quoted(event.category), event.start, event.duration, process, row));
    }
  }
  return fmt::format("{}", fmt::join(lines, ",\n"));
}

std::string trace_file_text(std::span<const std::string> processes,
                            const std::vector<std::pair<std::string, std::string>>& other) {
  nlohmann::ordered_json about = nlohmann::ordered_json::object();
  for (const auto& [name, value] : other) about[name] = value;
  return fmt::format("{{\"displayTimeUnit\":\"ms\",\n\"otherData\":{},\n\"traceEvents\":[\n{}\n]}}\n",
                     about.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
                     fmt::join(processes, ",\n"));
}

}  // namespace telar
