#include "telar/bench/kept_figures.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "telar/core/cache_folder.h"
#include "telar/core/error.h"
#include "telar/io/atomic_file.h"

namespace telar::bench {

namespace {

/// The contents of limits_file(); empty if it does not exist or cannot be parsed.
nlohmann::json read_kept() {
  std::ifstream file(limits_file());
  nlohmann::json json = nlohmann::json::parse(file, nullptr, false);
  return json.is_object() ? json : nlohmann::json::object();
}

}  // namespace

double Figures::of(const std::string& name) const {
  const auto found = by_name.find(name);
  return found == by_name.end() ? 0 : found->second;
}

Figures kept_figures(const std::string& of) {
  const nlohmann::json kept = read_kept();
  Figures figures;
  if (const auto found = kept.find(of); found != kept.end() && found->is_object())
    for (const auto& [name, value] : found->items())
      if (value.is_number()) figures.by_name[name] = value;
  return figures;
}

void keep_figures(const std::string& of, const Figures& figures) {
  nlohmann::json kept = read_kept();
  kept[of] = figures.by_name;
  std::error_code refused;
  std::filesystem::create_directories(limits_file().parent_path(), refused);
  if (refused)
    throw run_error("the folder {} cannot be created: {}", limits_file().parent_path().string(),
                    refused.message());
  write_file(limits_file(), kept.dump(2) + "\n");
}

std::filesystem::path limits_file() { return cache_folder() / "limits.json"; }

}  // namespace telar::bench
