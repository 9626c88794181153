#include "telar/bench/result.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>

#include "telar/bench/report_parts.h"
#include "telar/core/version.h"
#include "telar/device/cpu/onednn.h"
#include "telar/observe/hardware.h"
#include "telar/observe/process.h"
#include "telar/observe/sysfs.h"

namespace telar::bench {

namespace {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::string text(32, '\0');
  text.resize(std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts));
  return text;
}

std::string caches_text(const CpuInfo& cpu) {
  std::string text;
  for (const CpuCache& cache : cpu.caches) {
    text += fmt::format("{}{} × {} level {} {}", text.empty() ? "" : ", ", cache.count,
                        bytes_text(cache.bytes), cache.level, cache.type);
  }
  return text.empty() ? "unknown" : text;
}

nlohmann::ordered_json json_of(const Measured& measured) {
  nlohmann::ordered_json json = {{"median_ms", measured.times.median()},
                                 {"min_ms", measured.times.min()},
                                 {"max_ms", measured.times.max()},
                                 {"repetitions", measured.times.milliseconds.size()}};
  if (measured.operations > 0) {
    json["operations"] = measured.operations;
    json["operations_per_second"] = measured.operations_per_second();
  }
  if (measured.bytes > 0) {
    json["bytes"] = measured.bytes;
    json["bytes_per_second"] = measured.bytes_per_second();
  }
  if (measured.limit_ms > 0) {
    json["limit_ms"] = measured.limit_ms;
    json["of_limit"] = measured.of_limit();
    json["suspect"] = measured.suspect;
  }
  if (measured.joules) json["joules"] = *measured.joules;
  return json;
}

nlohmann::ordered_json json_of(const ResultRow& row, const std::vector<std::string>& settings) {
  nlohmann::ordered_json json;
  for (size_t i = 0; i < settings.size(); ++i) json[settings[i]] = row.setting[i];
  if (!row.impossible.empty()) json["impossible"] = row.impossible;
  if (row.measured) json.update(json_of(*row.measured));
  for (const Figure& figure : row.figures) {
    nlohmann::ordered_json& entry = json["figures"][figure.name];
    entry["value"] = figure.value ? nlohmann::ordered_json(*figure.value) : nlohmann::ordered_json();
    if (!figure.unit.empty()) entry["unit"] = figure.unit;
  }
  return json;
}

nlohmann::ordered_json json_of(const Axis& axis) {
  nlohmann::ordered_json json = {{"label", axis.label}};
  if (!axis.unit.empty()) json["unit"] = axis.unit;
  return json;
}

/// A field as in RFC 4180, quoted if necessary.
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

/// A number; empty if it is not positive.
std::string csv_number(double number) { return number > 0 ? fmt::format("{}", number) : ""; }

}  // namespace

nlohmann::ordered_json report::json_of(const Chart& chart) {
  nlohmann::ordered_json json = {{"title", chart.title},
                                 {"kind", "line"},
                                 {"x", bench::json_of(chart.x)},
                                 {"y", bench::json_of(chart.y)},
                                 {"series", nlohmann::ordered_json::array()}};
  for (const Curve& curve : chart.curves)
    json["series"].push_back({{"name", curve.name}, {"points", curve.points}});
  for (const ChartMark& mark : chart.marks)
    json["marks"].push_back({{"series", mark.curve}, {"x", mark.x}, {"text", mark.text}});
  return json;
}

Environment read_environment() {
  const CpuInfo cpu = read_cpu();
  const std::string governor = read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  const dnnl_version_t* onednn = dnnl_version();
  return {{{"date", utc_now()},
           {"host", host_name()},
           {"processor", cpu.model},
           {"cores", fmt::format("{} in {} packages, {} threads", cpu.cores, cpu.packages, cpu.threads)},
           {"threads_of_this_process", std::to_string(available_threads())},
           {"caches", caches_text(cpu)},
           {"features", fmt::format("{}", fmt::join(cpu.features, " "))},
           {"frequency_governor", governor.empty() ? "unknown" : governor},
           {"memory", bytes_text(read_memory().total)},
           {"telar", version()},
           {"compiler", __VERSION__},
           {"oneDNN", fmt::format("{}.{}.{}", onednn->major, onednn->minor, onednn->patch)}}};
}

bool was_busy(const Result& result) { return result.others > kQuiet; }

std::string json_text(const Result& result) {
  nlohmann::ordered_json json = {{"experiment", result.experiment},
                                 {"title", result.title},
                                 {"environment", nlohmann::ordered_json::object()}};
  for (const auto& [name, value] : result.environment.entries) json["environment"][name] = value;
  json["processors_kept_busy_by_others"] = result.others;
  json["busy"] = was_busy(result);
  json["energy_source"] =
      result.energy_source.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(result.energy_source);
  json["remarks"] = result.remarks;
  json["settings"] = result.settings;
  json["rows"] = nlohmann::ordered_json::array();
  for (const ResultRow& row : result.rows) json["rows"].push_back(json_of(row, result.settings));
  if (!result.drawn.empty()) json["drawn"] = result.drawn;
  json["charts"] = nlohmann::ordered_json::array();
  for (const Chart& chart : result.charts) json["charts"].push_back(report::json_of(chart));
  return json.dump(2) + "\n";
}

std::vector<Figure> figure_columns(std::span<const ResultRow> rows) {
  std::vector<Figure> columns;
  for (const ResultRow& row : rows) {
    for (const Figure& figure : row.figures) {
      const bool known = std::any_of(columns.begin(), columns.end(),
                                     [&](const Figure& column) { return column.name == figure.name; });
      if (!known) columns.push_back({figure.name, figure.unit, std::nullopt});
    }
  }
  return columns;
}

const Figure* find_figure(const ResultRow& row, const std::string& name) {
  const auto found = std::find_if(row.figures.begin(), row.figures.end(),
                                  [&](const Figure& figure) { return figure.name == name; });
  return found == row.figures.end() ? nullptr : &*found;
}

std::string csv_text(const Result& result) {
  const std::vector<Figure> columns = figure_columns(result.rows);
  std::string text;
  for (const std::string& setting : result.settings) text += csv_field(setting) + ",";
  text +=
      "median_ms,min_ms,max_ms,repetitions,operations,bytes,operations_per_second,bytes_per_second,limit_ms,of_limit,suspect,joules,";
  for (const Figure& column : columns)
    text +=
        csv_field(column.unit.empty() ? column.name : fmt::format("{} [{}]", column.name, column.unit)) + ",";
  text += "impossible\r\n";
  for (const ResultRow& row : result.rows) {
    for (const std::string& setting : row.setting) text += csv_field(setting) + ",";
    if (row.measured) {
      const Measured& m = *row.measured;
      text +=
          fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},", m.times.median(), m.times.min(), m.times.max(),
                      m.times.milliseconds.size(), csv_number(m.operations), csv_number(m.bytes),
                      csv_number(m.operations_per_second()), csv_number(m.bytes_per_second()),
                      csv_number(m.limit_ms), csv_number(m.limit_ms > 0 ? m.of_limit() : 0), m.suspect,
                      m.joules ? fmt::format("{}", *m.joules) : "");
    } else {
      text += ",,,,,,,,,,,,";
    }
    for (const Figure& column : columns) {
      const Figure* figure = find_figure(row, column.name);
      if (figure != nullptr && figure->value) text += fmt::format("{}", *figure->value);
      text += ",";
    }
    text += csv_field(row.impossible) + "\r\n";
  }
  return text;
}

}  // namespace telar::bench
