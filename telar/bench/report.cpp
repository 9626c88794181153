#include "telar/bench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>

#include "telar/bench/curve.h"
#include "telar/bench/report_parts.h"
#include "telar/bench/report_template.h"
#include "telar/core/error.h"
#include "telar/io/shallow_json.h"
#include "telar/train/run_folder.h"

namespace telar::bench {

namespace {

namespace fs = std::filesystem;
using report::column;
using report::Json;
using report::number_of;

std::string read_text(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream)
    throw user_error("'{}' cannot be read: {}", path.string(), std::generic_category().message(errno));
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::string text_of(const Json& object, const std::string& name, const std::string& otherwise) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : otherwise;
}

Json scaled(const Json& number, double factor) {
  return number.is_null() ? number : Json(number.get<double>() * factor);
}

struct Run {
  std::string name;
  std::string folder;
  Json summary;
  TrainingCurve curve;
  bool by_job = true;  ///< false: by Python's fit, which writes no summary
};

/// A pipeline has stages; that its only replica is one says nothing of them.
Json replicas_of(const Json& summary) {
  const Json replicas = number_of(summary, "replicas");
  return summary.contains("bubble_formula") && replicas == 1 ? Json() : replicas;
}

/// What the log tells of a run without a summary: one of Python's fit, one that goes on, one that was killed.
void fill_in_from_curve(Run& run) {
  const TrainingCurve& curve = run.curve;
  run.summary.emplace("epochs", curve.epochs.empty() ? 0 : curve.epochs.back().epoch);
  Json best;
  for (const CurvePoint& epoch : curve.epochs)
    if (epoch.validation && epoch.loss && std::isfinite(*epoch.loss) &&
        (best.is_null() || *epoch.loss < best))
      best = *epoch.loss;
  run.summary.emplace("best_validation_loss", std::move(best));
  if (curve.steps.empty() || curve.steps.back().seconds <= 0) return;
  const CurvePoint& last = curve.steps.back();
  run.summary.emplace("seconds", last.seconds);
  run.summary.emplace("images_per_second", last.samples / last.seconds);
}

Run read_run(const fs::path& folder) {
  Run run;
  run.name =
      folder.filename().empty() ? folder.parent_path().filename().string() : folder.filename().string();
  run.folder = folder.string();
  run.by_job = fs::exists(folder / "job.yaml");
  if (fs::exists(folder / "summary.json"))
    run.summary = shallow_json<Json>(read_text(folder / "summary.json"));
  if (!run.summary.is_object()) run.summary = Json::object();
  run.curve = read_curve(folder);
  fill_in_from_curve(run);
  return run;
}

/// Runs of one name are told apart by their folders.
void name_apart(std::vector<Run>& runs) {
  std::map<std::string, int> count;
  for (const Run& run : runs) ++count[run.name];
  for (Run& run : runs)
    if (count[run.name] > 1) run.name = run.folder;
}

/// A warning says that the figures are not those of a whole training.
std::string outcome_of(const Run& run) {
  const std::string outcome = text_of(run.summary, "outcome", run.by_job ? "not ended" : "—");
  const std::string warning = text_of(run.summary, "warning", "");
  return warning.empty() ? outcome : outcome + "; warning: " + warning;
}

Json section_of_runs(const std::vector<Run>& runs) {
  Json table = {
      {"columns",
       {column("run", "", false), column("strategy", "", false), column("replicas", "", true),
        column("outcome", "", false), column("test accuracy", "", true), column("test loss", "", true),
        column("rate", "samples/s", true), column("step", "ms", true), column("time", "s", true),
        column("peak memory", "MB", true), column("staleness", "updates", true), column("epochs", "", true),
        column("best validation loss", "", true)}},
      {"rows", Json::array()}};
  for (const Run& run : runs) {
    const Json& s = run.summary;
    table["rows"].push_back({run.name, text_of(s, "strategy", "—"), replicas_of(s), outcome_of(run),
                             number_of(s, "test_accuracy"), number_of(s, "test_loss"),
                             number_of(s, "images_per_second"), number_of(s, "step_ms_median"),
                             number_of(s, "seconds"), scaled(number_of(s, "peak_memory_bytes"), 1e-6),
                             number_of(s, "staleness"), number_of(s, "epochs"),
                             number_of(s, "best_validation_loss")});
  }
  std::vector<std::pair<std::string, TrainingCurve>> curves;
  for (const Run& run : runs) curves.emplace_back(run.name, run.curve);
  Json charts = Json::array();
  for (const Chart& chart : learning_charts(curves)) charts.push_back(report::json_of(chart));
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
  // Within a script element the text must not contain anything that ends it.
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
      require_no_part_of_run(source);
      if (!fs::exists(source / "metrics.jsonl"))
        throw user_error(
            "{} is not a run folder; it must contain metrics.jsonl, as telar train and Python's fit write it",
            source.string());
      runs.push_back(read_run(source));
      return;
    }
    const Json json = shallow_json<Json>(read_text(source));
    if (!report::is_result(json)) {
      throw user_error(
          "{} is not the result of an experiment; give run folders, and files that telar bench or telar compare has written with --json",
          source.string());
    }
    sections.push_back(report::section_of_result(json));
  };
  for (const fs::path& source : sources) {
    try {
      add(source);
    } catch (const Json::exception& error) {
      throw user_error("{} does not have the format that telar writes: {}", source.string(), error.what());
    }
  }
  name_apart(runs);
  if (!runs.empty()) sections.insert(sections.begin(), section_of_runs(runs));
  return page_of(title, sections);
}

std::string report_page(const Result& result) {
  return page_of(result.title, Json::array({report::section_of_result(Json::parse(json_text(result)))}));
}

}  // namespace telar::bench
