#include "telar/observe/metrics_log.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "telar/io/atomic_file.h"

namespace telar {
namespace {

bool belongs(const std::string& line, int64_t last_step) {
  const auto fields = nlohmann::json::parse(line, nullptr, false);
  if (!fields.is_object()) return false;
  const auto step = fields.find("step");
  return step == fields.end() || !step->is_number_integer() || step->get<int64_t>() <= last_step;
}

}  // namespace

void MetricsLog::append(const std::vector<MetricField>& fields) {
  nlohmann::ordered_json line = nlohmann::ordered_json::object();
  for (const auto& [name, value] : fields) {
    std::visit([&line, &key = name](const auto& v) { line[key] = v; }, value);
  }
  file_.write(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

LoggedSoFar go_on_with_metrics(const std::filesystem::path& path) {
  std::ifstream stream(path);
  std::string of_step;
  std::string of_epoch;
  LoggedSoFar logged;
  uintmax_t whole = 0;
  for (std::string line; std::getline(stream, line) && !stream.eof(); whole += line.size() + 1) {
    if (line.starts_with(R"({"kind":"step",)")) of_step = line;
    if (line.starts_with(R"({"kind":"epoch",)")) of_epoch = line;
    // A test before further steps is that of a run that was resumed.
    logged.test =
        line.starts_with(R"({"kind":"test",)") || (logged.test && line != of_step && line != of_epoch);
  }
  if (std::filesystem::exists(path)) std::filesystem::resize_file(path, whole);
  if (!of_step.empty()) logged.step = nlohmann::json::parse(of_step).at("step").get<int64_t>();
  if (!of_epoch.empty()) logged.epoch = nlohmann::json::parse(of_epoch).at("epoch").get<int64_t>();
  return logged;
}

void discard_metrics_after(const std::filesystem::path& path, int64_t step) {
  std::ifstream stream(path);
  if (!stream) return;
  std::string kept;
  for (std::string line; std::getline(stream, line);) {
    if (belongs(line, step)) kept += line + "\n";
  }
  write_file(path, kept, Links::refuse);
}

}  // namespace telar
