#include "telar/bench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "telar/bench/report_parts.h"
#include "telar/bench/report_template.h"
#include "telar/core/error.h"
#include "telar/train/job_reader.h"

namespace telar::bench {

namespace {

namespace fs = std::filesystem;
using report::column;
using report::Json;
using report::number_of;

std::string read_text(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw user_error("{}: this file cannot be read", path.string());
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::string text_of(const Json& object, const std::string& name, const std::string& otherwise) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : otherwise;
}

Json scaled(const Json& number, double factor) {
  return number.is_null() ? number : Json(number.get<double>() * factor);
}

/// A run's curves.
struct Run {
  std::string name;
  Json summary;
  Json loss_by_samples = Json::array();
  Json loss_by_seconds = Json::array();
  Json accuracy_by_samples = Json::array();
  Json accuracy_by_seconds = Json::array();
};

/// At most some hundreds of points: the mean of each stretch.
Json thinned(const Json& points) {
  constexpr size_t kMost = 400;
  if (points.size() <= kMost) return points;
  Json thin = Json::array();
  for (size_t i = 0; i < kMost; ++i) {
    const size_t begin = i * points.size() / kMost;
    const size_t end = (i + 1) * points.size() / kMost;
    double sum = 0;
    for (size_t p = begin; p < end; ++p) sum += points[p][1].get<double>();
    thin.push_back({points[end - 1][0], sum / static_cast<double>(end - begin)});
  }
  return thin;
}

Run read_run(const fs::path& folder) {
  const auto batch = static_cast<double>(read_job(folder / "job.yaml").training.batch);
  Run run;
  run.name =
      folder.filename().empty() ? folder.parent_path().filename().string() : folder.filename().string();
  if (fs::exists(folder / "summary.json"))
    run.summary = Json::parse(read_text(folder / "summary.json"), nullptr, false);
  if (!run.summary.is_object()) run.summary = Json::object();
  std::ifstream file(folder / "metrics.jsonl");
  double seconds = 0;
  int64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    const Json record = Json::parse(line, nullptr, false);
    if (!record.is_object()) {
      // A run that was killed may have left half a line at the end.
      if (file.peek() == std::ifstream::traits_type::eof()) break;
      throw user_error("{}, line {}: this is not JSON", (folder / "metrics.jsonl").string(), number);
    }
    const double samples = batch * record.value("step", 0.0);
    const std::string kind = record.value("kind", "");
    if (kind == "step") {
      if (const double rate = record.value("images_per_second", 0.0); rate > 0) seconds += batch / rate;
      if (const Json loss = number_of(record, "loss"); !loss.is_null()) {
        run.loss_by_samples.push_back({samples, loss});
        run.loss_by_seconds.push_back({seconds, loss});
      }
    } else if (kind == "epoch") {
      Json accuracy = number_of(record, "validation_accuracy");
      if (accuracy.is_null()) accuracy = number_of(record, "train_accuracy");
      if (accuracy.is_null()) continue;
      run.accuracy_by_samples.push_back({samples, accuracy});
      run.accuracy_by_seconds.push_back({seconds, accuracy});
    }
  }
  return run;
}

Json line_chart(const std::string& title, const Json& x, const Json& y, const std::vector<Run>& runs,
                Json Run::*curve) {
  Json chart = {{"title", title}, {"kind", "line"}, {"x", x}, {"y", y}, {"series", Json::array()}};
  for (const Run& run : runs) {
    if (!(run.*curve).empty())
      chart["series"].push_back({{"name", run.name}, {"points", thinned(run.*curve)}});
  }
  return chart;
}

Json section_of_runs(const std::vector<Run>& runs) {
  Json table = {
      {"columns",
       {column("run", "", false), column("strategy", "", false), column("replicas", "", true),
        column("outcome", "", false), column("test accuracy", "", true), column("test loss", "", true),
        column("rate", "images/s", true), column("step", "ms", true), column("time", "s", true),
        column("peak memory", "MB", true), column("staleness", "updates", true)}},
      {"rows", Json::array()}};
  for (const Run& run : runs) {
    const Json& s = run.summary;
    table["rows"].push_back({run.name, text_of(s, "strategy", "—"), number_of(s, "replicas"),
                             text_of(s, "outcome", "not ended"), number_of(s, "test_accuracy"),
                             number_of(s, "test_loss"), number_of(s, "images_per_second"),
                             number_of(s, "step_ms_median"), number_of(s, "seconds"),
                             scaled(number_of(s, "peak_memory_bytes"), 1e-6), number_of(s, "staleness")});
  }
  const Json samples = {{"label", "samples"}};
  const Json seconds = {{"label", "training time"}, {"unit", "s"}};
  const Json loss = {{"label", "training loss"}};
  const Json accuracy = {{"label", "accuracy"}};
  Json charts = Json::array();
  for (Json& chart : std::array<Json, 4>{
           line_chart("Training loss against samples", samples, loss, runs, &Run::loss_by_samples),
           line_chart("Training loss against time", seconds, loss, runs, &Run::loss_by_seconds),
           line_chart("Accuracy after each epoch, against samples", samples, accuracy, runs,
                      &Run::accuracy_by_samples),
           line_chart("Accuracy after each epoch, against time", seconds, accuracy, runs,
                      &Run::accuracy_by_seconds)}) {
    if (!chart["series"].empty()) charts.push_back(std::move(chart));
  }
  return {{"title", runs.size() == 1 ? "Run" : "Runs"}, {"tables", {table}}, {"charts", charts}};
}

std::string page_of(const std::string& title, const Json& sections) {
  const Environment environment = read_environment();
  const auto entry = [&](const char* name) {
    const auto found = std::find_if(environment.entries.begin(), environment.entries.end(),
                                    [&](const auto& pair) { return pair.first == name; });
    return found == environment.entries.end() ? std::string() : found->second;
  };
  const Json data = {
      {"title", title}, {"telar", entry("telar")}, {"date", entry("date")}, {"sections", sections}};
  std::string text;
  // Within a script element nothing may look like its end.
  for (const char c : data.dump(-1, ' ', false, Json::error_handler_t::replace)) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  std::string page = kReportTemplate;
  const std::string mark = "@DATA@";
  page.replace(page.find(mark), mark.size(), text);
  return page;
}

}  // namespace

std::string report_page(const std::vector<fs::path>& sources, const std::string& title) {
  Json sections = Json::array();
  std::vector<Run> runs;
  const auto add = [&](const fs::path& source) {
    if (fs::is_directory(source)) {
      if (!fs::exists(source / "job.yaml") || !fs::exists(source / "metrics.jsonl"))
        throw user_error("{}: this is no run folder: it has no job.yaml and metrics.jsonl", source.string());
      runs.push_back(read_run(source));
      return;
    }
    const Json json = Json::parse(read_text(source), nullptr, false);
    if (!report::is_result(json)) {
      throw user_error(
          "{}: this is no result of an experiment; give files that telar bench or telar compare has written "
          "with "
          "--json, and run folders",
          source.string());
    }
    sections.push_back(report::section_of_result(json));
  };
  for (const fs::path& source : sources) {
    try {
      add(source);
    } catch (const Json::exception& error) {
      throw user_error("{}: something in it is not as telar writes it ({})", source.string(), error.what());
    }
  }
  if (!runs.empty()) sections.insert(sections.begin(), section_of_runs(runs));
  return page_of(title, sections);
}

std::string report_page(const Result& result) {
  return page_of(result.title, Json::array({report::section_of_result(Json::parse(json_text(result)))}));
}

}  // namespace telar::bench
