#include "telar/bench/curve.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "telar/core/error.h"

namespace telar::bench {

namespace {

using Line = nlohmann::json;

std::optional<double> number_of(const Line& record, const std::string& name) {
  const auto found = record.find(name);
  if (found == record.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

CurvePoint step_point(const Line& record) {
  return {record.at("epoch").get<int64_t>(),   record.at("samples").get<double>(),
          record.at("seconds").get<double>(),  number_of(record, "loss"),
          number_of(record, "accuracy"),       number_of(record, "window_loss"),
          number_of(record, "window_accuracy")};
}

CurvePoint epoch_point(const Line& record) {
  CurvePoint point = step_point(record);
  point.validation = record.contains("validation_loss");
  constexpr std::string_view kValidation = "validation_";
  for (const auto& [name, value] : record.items())
    if (name.starts_with(kValidation) && value.is_number() && std::isfinite(value.get<double>()))
      point.validated[name.substr(kValidation.size())] = value.get<double>();
  const std::string part = point.validation ? "validation_" : "train_";
  point.loss = number_of(record, part + "loss");
  point.accuracy = number_of(record, part + "accuracy");
  return point;
}

std::optional<int64_t> count_of(const Line& record, const std::string& name) {
  const std::optional<double> number = number_of(record, name);
  return number ? std::optional(static_cast<int64_t>(*number)) : std::nullopt;
}

CurveMark mark_of(const Line& record, std::string text) {
  return {.samples = record.at("samples").get<double>(),
          .seconds = record.at("seconds").get<double>(),
          .text = std::move(text),
          .processes = count_of(record, "processes"),
          .before = count_of(record, "processes_before")};
}

CurveMark resumed(const Line& record) {
  const auto changes = record.at("changes").get<std::string>();
  return mark_of(record, changes.empty() ? "resumed" : "resumed; " + changes);
}

CurveMark recovered(const Line& record) {
  std::string text;
  for (const char* what : {"lost", "come"}) {
    const auto who = record.at(what).get<std::string>();
    if (!who.empty()) text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", what, who);
  }
  return mark_of(record, std::move(text));
}

using Points = std::vector<std::pair<double, double>>;

/// Reduces the points to at most kMost: the lowest and the highest of each of equally many consecutive ones,
/// and the last.
Points thinned(const Points& points) {
  constexpr size_t kMost = 400;
  constexpr size_t kParts = (kMost - 1) / 2;
  if (points.size() <= kMost) return points;
  Points thin;
  const auto y = [](const auto& point) { return point.second; };
  for (size_t i = 0; i < kParts; ++i) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(i * points.size() / kParts);
    const auto end = points.begin() + static_cast<std::ptrdiff_t>((i + 1) * points.size() / kParts);
    const auto [least, most] = std::ranges::minmax_element(begin, end, {}, y);
    thin.push_back(std::min(*least, *most));  // the earlier one
    if (least != most) thin.push_back(std::max(*least, *most));
  }
  if (thin.back() != points.back()) thin.push_back(points.back());
  return thin;
}

using Quantity = std::optional<double> CurvePoint::*;

Points points_of(const std::vector<CurvePoint>& curve, double CurvePoint::*x, Quantity y, bool validation) {
  Points points;
  for (const CurvePoint& point : curve)
    if (point.*y && point.validation == validation) points.emplace_back(point.*x, *(point.*y));
  return thinned(points);
}

/// Over the time: a line that is level between two marks.
Points processes_of(const TrainingCurve& curve) {
  Points points;
  double resumed = 0;
  for (const CurveMark& mark : curve.marks) {
    if (!mark.processes) {
      resumed = mark.seconds;
      continue;
    }
    if (points.empty() && mark.before) points.emplace_back(0, *mark.before);
    if (mark.before && points.back().second != static_cast<double>(*mark.before)) {
      points.emplace_back(resumed, points.back().second);
      points.emplace_back(resumed, *mark.before);
    }
    if (!points.empty()) points.emplace_back(mark.seconds, points.back().second);
    points.emplace_back(mark.seconds, *mark.processes);
  }
  if (!points.empty() && !curve.steps.empty())
    points.emplace_back(curve.steps.back().seconds, points.back().second);
  return points;
}

constexpr std::string_view kStep = R"({"kind":"step")";
constexpr std::string_view kEpoch = R"({"kind":"epoch")";

}  // namespace

TrainingCurve read_curve(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "metrics.jsonl";
  TrainingCurve curve;
  std::ifstream file(path);
  int64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    const Line record = Line::parse(line, nullptr, false);
    // A run that was killed may leave an incomplete line at the end.
    if (!record.is_object() && file.peek() == std::ifstream::traits_type::eof()) break;
    try {
      const std::string kind = record.at("kind").get<std::string>();
      if (kind == "step") curve.steps.push_back(step_point(record));
      if (kind == "epoch") curve.epochs.push_back(epoch_point(record));
      if (kind == "resume") curve.marks.push_back(resumed(record));
      if (kind == "recovery") curve.marks.push_back(recovered(record));
    } catch (const Line::exception&) {
      throw user_error(
          "{}, line {}: this is not a line that telar train writes; it must be an object with kind, epoch, samples and seconds",
          path.string(), number);
    }
  }
  return curve;
}

std::vector<Chart> learning_charts(const std::vector<std::pair<std::string, TrainingCurve>>& named) {
  struct Kind {
    const char* title;
    const char* label;
    std::vector<CurvePoint> TrainingCurve::*points;
    Quantity quantity;
    bool validation = false;
  };
  struct Against {
    const char* title;
    Axis axis;
    double CurvePoint::*x;
    double CurveMark::*mark;
  };
  std::vector<Chart> charts;
  for (const Kind& kind :
       {Kind{"Training loss", "training loss", &TrainingCurve::steps, &CurvePoint::loss},
        Kind{"Validation accuracy after each epoch", "accuracy", &TrainingCurve::epochs,
             &CurvePoint::accuracy, true},
        Kind{"Training accuracy of each epoch", "accuracy", &TrainingCurve::epochs, &CurvePoint::accuracy},
        Kind{"Validation loss after each epoch", "loss", &TrainingCurve::epochs, &CurvePoint::loss, true},
        Kind{"Loss of new samples (window)", "loss", &TrainingCurve::steps, &CurvePoint::window_loss},
        Kind{"Accuracy of new samples (window)", "accuracy", &TrainingCurve::steps,
             &CurvePoint::window_accuracy}}) {
    for (const Against& against :
         {Against{"samples", {"samples", ""}, &CurvePoint::samples, &CurveMark::samples},
          Against{"time", {"training time", "s"}, &CurvePoint::seconds, &CurveMark::seconds}}) {
      Chart chart{
          fmt::format("{} against {}", kind.title, against.title), against.axis, {kind.label, ""}, {}};
      for (const auto& [name, curve] : named) {
        Points points = points_of(curve.*kind.points, against.x, kind.quantity, kind.validation);
        if (points.empty()) continue;
        for (const CurveMark& mark : curve.marks)
          chart.marks.push_back({chart.curves.size(), mark.*against.mark, mark.text});
        chart.curves.push_back({name, std::move(points)});
      }
      if (!chart.curves.empty()) charts.push_back(std::move(chart));
    }
  }
  Chart processes{"Processes of the run", {"training time", "s"}, {"processes", ""}, {}};
  for (const auto& [name, curve] : named)
    if (Points points = processes_of(curve); !points.empty())
      processes.curves.push_back({name, std::move(points)});
  if (!processes.curves.empty()) charts.push_back(std::move(processes));
  return charts;
}

CurveWatch::News CurveWatch::look() {
  News news;
  std::ifstream file(file_, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(read_));
  std::string step;
  for (std::string line; std::getline(file, line) && !file.eof();) {
    read_ += line.size() + 1;
    if (line.starts_with(kStep)) step = line;
    if (line.starts_with(kEpoch)) news.epochs.push_back(epoch_point(Line::parse(line)));
  }
  if (!step.empty()) news.step = step_point(Line::parse(step));
  return news;
}

}  // namespace telar::bench
