#include "telar/cli/fold_results.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>

namespace telar::cli {

namespace {

constexpr std::string_view kParts[] = {"validation", "test"};

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double deviation_of(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const double mean = mean_of(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

}  // namespace

void FoldResults::add(const std::string& summary) {
  const auto json = nlohmann::ordered_json::parse(summary);
  folders_.push_back(json.at("folder").get<std::string>());
  for (const std::string_view part : kParts) {
    const std::string prefix = std::string(part) + "_";
    if (json.at(prefix + "loss").is_null()) continue;  // the run has no such samples
    for (const auto& [name, value] : json.items()) {
      if (!name.starts_with(prefix) || !(value.is_number() || value.is_null())) continue;
      auto known = std::ranges::find(figures_, name, [](const auto& figure) { return figure.first; });
      if (known == figures_.end()) known = figures_.insert(figures_.end(), {name, {}});
      known->second.push_back(value.is_null() ? std::nan("") : value.get<double>());
    }
  }
}

std::string FoldResults::text() const {
  std::string text;
  for (const std::string_view part : kParts) {
    std::vector<std::string> figures;
    for (const auto& [name, values] : figures_) {
      if (!name.starts_with(part)) continue;
      figures.push_back(fmt::format("{} {:.4f} ± {:.4f}", name.substr(part.size() + 1), mean_of(values),
                                    deviation_of(values)));
    }
    if (!figures.empty()) text += fmt::format("{}: {}\n", part, fmt::join(figures, ", "));
  }
  return text;
}

std::string FoldResults::json() const {
  nlohmann::ordered_json json = {{"folds", folders_.size()}};
  for (const auto& [name, values] : figures_)
    json[name] = {{"mean", mean_of(values)}, {"deviation", deviation_of(values)}, {"of_folds", values}};
  json["folders"] = folders_;
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace telar::cli
