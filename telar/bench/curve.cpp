#include "telar/bench/curve.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "telar/core/error.h"

namespace telar::bench {

namespace {

using Json = nlohmann::json;

std::optional<double> number_of(const Json& record, const std::string& name) {
  const auto found = record.find(name);
  if (found == record.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

CurvePoint step_point(const Json& record) {
  return {record.at("epoch").get<int64_t>(), record.at("samples").get<double>(),
          record.at("seconds").get<double>(), number_of(record, "loss"), number_of(record, "accuracy")};
}

CurvePoint epoch_point(const Json& record) {
  CurvePoint point = step_point(record);
  const std::string part = record.contains("validation_loss") ? "validation_" : "train_";
  point.loss = number_of(record, part + "loss");
  point.accuracy = number_of(record, part + "accuracy");
  return point;
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
    const Json record = Json::parse(line, nullptr, false);
    // A run that was killed may have left half a line at the end.
    if (!record.is_object() && file.peek() == std::ifstream::traits_type::eof()) break;
    try {
      const std::string kind = record.at("kind").get<std::string>();
      if (kind == "step") curve.steps.push_back(step_point(record));
      if (kind == "epoch") curve.epochs.push_back(epoch_point(record));
    } catch (const Json::exception&) {
      throw user_error(
          "{}, line {}: this is not as telar train writes it: an object with kind, epoch, samples and "
          "seconds",
          path.string(), number);
    }
  }
  return curve;
}

CurveWatch::News CurveWatch::look() {
  News news;
  std::ifstream file(file_, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(read_));
  std::string step;
  for (std::string line; std::getline(file, line) && !file.eof();) {
    read_ += line.size() + 1;
    if (line.starts_with(kStep)) step = line;
    if (line.starts_with(kEpoch)) news.epochs.push_back(epoch_point(Json::parse(line)));
  }
  if (!step.empty()) news.step = step_point(Json::parse(step));
  return news;
}

}  // namespace telar::bench
