#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "telar/bench/result.h"

/// Parts of the data from which report.html draws the page of a report.
namespace telar::bench::report {

using Json = nlohmann::ordered_json;

/// A column of a table; a `number` is right-aligned.
inline Json column(const std::string& name, const std::string& unit, bool number) {
  return {{"name", name}, {"unit", unit}, {"number", number}};
}

/// A number of a JSON object, or null.
inline Json number_of(const Json& object, const std::string& name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? *found : Json();
}

/// The data from which the page draws a chart.
Json json_of(const Chart& chart);
/// True if `telar bench … --json` has written it.
bool is_result(const Json& json);
/// The section of a result: a table, a bar chart of its rates or of the figure that it selects, and its own
/// charts.
Json section_of_result(const Json& result);

}  // namespace telar::bench::report
