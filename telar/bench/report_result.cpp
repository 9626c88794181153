#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "telar/bench/report_parts.h"

namespace telar::bench::report {

namespace {

/// A column of figures, and how to get its value from a row.
struct Column {
  std::string name;
  std::string unit;
  std::function<Json(const Json&)> number;
};

Json figure_of(const Json& row, const std::string& name) {
  const auto figures = row.find("figures");
  if (figures == row.end() || !figures->contains(name)) return {};
  return number_of((*figures)[name], "value");
}

/// The additional figures of all rows, each once, with its unit.
std::vector<std::pair<std::string, std::string>> figures_of(const Json& result) {
  std::vector<std::pair<std::string, std::string>> found;
  for (const Json& row : result["rows"]) {
    const auto figures = row.find("figures");
    if (figures == row.end()) continue;
    for (const auto& item : figures->items()) {
      const bool known =
          std::any_of(found.begin(), found.end(), [&](const auto& one) { return one.first == item.key(); });
      if (!known) found.emplace_back(item.key(), item.value().value("unit", ""));
    }
  }
  return found;
}

/// The columns that have a number in at least one row.
std::vector<Column> columns_of(const Json& result) {
  std::vector<Column> columns;
  const auto add = [&](const char* name, const char* unit, const char* key) {
    columns.push_back({name, unit, [key](const Json& row) { return number_of(row, key); }});
  };
  add("median", "ms", "median_ms");
  add("min", "ms", "min_ms");
  add("max", "ms", "max_ms");
  add("repetitions", "", "repetitions");
  add("operations", "FLOP", "operations");
  add("bytes", "B", "bytes");
  add("rate", "FLOP/s", "operations_per_second");
  add("throughput", "B/s", "bytes_per_second");
  add("of its limit", "", "of_limit");
  add("energy, each", "J", "joules");
  for (const auto& [name, unit] : figures_of(result))
    columns.push_back({name, unit, [name = name](const Json& row) { return figure_of(row, name); }});
  std::erase_if(columns, [&](const Column& column) {
    return std::all_of(result["rows"].begin(), result["rows"].end(),
                       [&](const Json& row) { return column.number(row).is_null(); });
  });
  return columns;
}

Json table_of(const Json& result, const std::vector<std::string>& settings) {
  const std::vector<Column> columns = columns_of(result);
  Json table = {{"columns", Json::array()}, {"rows", Json::array()}};
  for (const std::string& name : settings) table["columns"].push_back(column(name, "", false));
  for (const Column& one : columns) table["columns"].push_back(column(one.name, one.unit, true));
  table["columns"].push_back(column("remark", "", false));
  for (const Json& row : result["rows"]) {
    Json cells = Json::array();
    for (const std::string& name : settings) cells.push_back(row.value(name, ""));
    for (const Column& one : columns) cells.push_back(one.number(row));
    cells.push_back(row.contains("impossible")    ? "not measured: " + row["impossible"].get<std::string>()
                    : row.value("suspect", false) ? "suspect: faster than its limit"
                                                  : "");
    table["rows"].push_back(cells);
  }
  return table;
}

/// The bars of a result: for each row a height, optionally with the lowest and highest value, or null.
struct Bars {
  std::string title;
  std::string label;
  std::string unit;
  std::function<Json(const Json& row)> height;
};

Bars bars_of(const Json& result) {
  if (const std::string drawn = result.value("drawn", ""); !drawn.empty()) {
    std::string unit;
    for (const auto& [name, of] : figures_of(result))
      if (name == drawn) unit = of;
    return {drawn, drawn, unit, [drawn](const Json& row) {
              const Json value = figure_of(row, drawn);
              return value.is_null() ? value : Json::array({value});
            }};
  }
  const bool operations = std::any_of(result["rows"].begin(), result["rows"].end(),
                                      [](const Json& row) { return row.contains("operations"); });
  const char* work = operations ? "operations" : "bytes";
  return {"Rate; the error bars show the slowest and the fastest repetition", "rate",
          operations ? "GFLOP/s" : "GB/s", [work](const Json& row) -> Json {
            if (number_of(row, work).is_null() || number_of(row, "median_ms").is_null()) return {};
            const auto rate = [&](const char* time) {
              return 1e-6 * row.value(work, 0.0) / row.value(time, 1.0);
            };
            return {rate("median_ms"), rate("max_ms"), rate("min_ms")};
          }};
}

/// Bars grouped by the first setting; one series per combination of the others.
Json bar_chart(const Json& result, const std::vector<std::string>& settings) {
  const Bars bars = bars_of(result);
  std::vector<std::string> categories;
  std::vector<std::string> names;
  const auto name_of = [&](const Json& row) {
    std::string name;
    for (size_t s = 1; s < settings.size(); ++s)
      name += (name.empty() ? "" : ", ") + row.value(settings[s], "");
    return name.empty() ? bars.label : name;
  };
  const auto index_in = [](std::vector<std::string>& all, const std::string& one) {
    const auto found = std::find(all.begin(), all.end(), one);
    const auto index = static_cast<size_t>(found - all.begin());
    if (found == all.end()) all.push_back(one);
    return index;
  };
  Json series = Json::array();
  for (const Json& row : result["rows"]) {
    const Json height = bars.height(row);
    if (height.is_null()) continue;
    const size_t category = index_in(categories, row.value(settings[0], ""));
    const size_t one = index_in(names, name_of(row));
    if (one == series.size()) series.push_back({{"name", names[one]}, {"points", Json::array()}});
    Json& points = series[one]["points"];
    while (points.size() <= category) points.push_back(nullptr);
    points[category] = Json::array({category});
    for (const Json& number : height) points[category].push_back(number);
  }
  return {{"title", bars.title},
          {"kind", "bar"},
          {"categories", categories},
          {"x", {{"label", settings[0]}}},
          {"y", {{"label", bars.label}, {"unit", bars.unit}}},
          {"series", series}};
}

}  // namespace

bool is_result(const Json& json) {
  return json.is_object() && json.contains("experiment") && json.contains("settings") &&
         json.contains("rows") && json["rows"].is_array() && json.contains("environment") &&
         json["environment"].is_object();
}

Json section_of_result(const Json& result) {
  const auto settings = result["settings"].get<std::vector<std::string>>();
  Json section = {{"title", result.value("title", result["experiment"].get<std::string>())},
                  {"remarks", result.value("remarks", Json::array())},
                  {"warnings", Json::array()},
                  {"environment", result["environment"]}};
  if (result.contains("energy_source") && result["energy_source"].is_string())
    section["remarks"].push_back("Energy was read from " + result["energy_source"].get<std::string>() +
                                 "; it includes what other processes used.");
  if (result.value("busy", false)) {
    section["warnings"].push_back(fmt::format(
        "This machine was busy: other processes used {:.1f} processors on average, so these figures are unreliable.",
        result.value("processors_kept_busy_by_others", 0.0)));
  }
  if (settings.empty() || result["rows"].empty()) return section;
  section["tables"] = {table_of(result, settings)};
  section["charts"] = Json::array();
  Json bars = bar_chart(result, settings);
  if (!bars["series"].empty()) section["charts"].push_back(std::move(bars));
  for (const Json& chart : result.value("charts", Json::array())) section["charts"].push_back(chart);
  return section;
}

}  // namespace telar::bench::report
