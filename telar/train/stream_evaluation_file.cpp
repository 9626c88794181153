#include "telar/train/stream_evaluation_file.h"

#include <cmath>
#include <limits>

namespace telar {

namespace {

using EvaluationJson = nlohmann::ordered_json;

constexpr int64_t kMostCounted = (int64_t{1} << 62U) - 1;
constexpr int64_t kMostInBucket = int64_t{1} << 50U;  // sums of all buckets do not overflow
constexpr size_t kMostRows = 48;
constexpr size_t kMostRaised = 8;
constexpr double kAnyNumber = -std::numeric_limits<double>::infinity();

EvaluationJson detector_json(const Adwin& adwin) {
  EvaluationJson rows = EvaluationJson::array();
  for (const auto& row : adwin.rows) {
    EvaluationJson buckets = EvaluationJson::array();
    for (const Adwin::Bucket& bucket : row) buckets.push_back({bucket.sum, bucket.squares});
    rows.push_back(std::move(buckets));
  }
  return {{"name", "adwin"}, {"rows", rows}, {"since_drift", adwin.since_drift}};
}

EvaluationJson detector_json(const PageHinkley& detector) {
  return {{"name", "page_hinkley"},
          {"values", detector.values},
          {"mean", detector.mean},
          {"sum", detector.sum},
          {"least", detector.least}};
}

EvaluationJson detector_json(const std::monostate& /*none*/) { return {{"name", "none"}}; }

bool is_finite_number(const nlohmann::json& json) {
  return json.is_number() && std::isfinite(json.get<double>());
}

bool is_count(const nlohmann::json& json) {
  return json.is_number_integer() && (!json.is_number_unsigned() || json.get<uint64_t>() <= kMostCounted) &&
         json.get<int64_t>() >= 0 && json.get<int64_t>() <= kMostCounted;
}

/// A list of `size` finite numbers, of which the first `counts` are integers, at least 0.
bool is_numbers(const nlohmann::json& json, size_t size, size_t counts) {
  if (!json.is_array() || json.size() != size) return false;
  for (size_t i = 0; i < size; ++i)
    if (!is_finite_number(json[i]) || (i < counts && !is_count(json[i]))) return false;
  return true;
}

StreamMeans means_from(const JsonFields& fields) {
  StreamMeans means;
  means.fading_sums = fields.numbers("fading_sums");
  means.fading_samples = fields.number("fading_samples", 0);
  const size_t metrics = means.fading_sums.size();
  const std::string right = fmt::format("a list of lists of a number of samples and {} sums", metrics);
  for (const nlohmann::json& bucket : fields.list("window", right)) {
    if (!is_numbers(bucket, metrics + 1, 1) || bucket[0].get<int64_t>() < 1 ||
        bucket[0].get<int64_t>() > kMostInBucket)
      throw fields.wrong("window", right);
    means.buckets.push_back({bucket[0].get<int64_t>(), {bucket.begin() + 1, bucket.end()}});
  }
  if (means.buckets.size() > 2 * StreamMeans::kBucketsInWindow)
    throw fields.wrong("window", fmt::format("at most {} buckets", 2 * StreamMeans::kBucketsInWindow));
  if (means.buckets.empty() != (means.fading_samples == 0))
    throw fields.wrong("fading_samples", "0 if, and only if, window is empty");
  return means;
}

Adwin adwin_from(const JsonFields& fields) {
  const std::string right =
      fmt::format("at most {} lists of 1 to {} pairs of a sum and a sum of squares", kMostRows, Adwin::kMost);
  Adwin adwin;
  for (const nlohmann::json& row : fields.list("rows", right)) {
    if (!row.is_array() || row.empty() || row.size() > Adwin::kMost || adwin.rows.size() == kMostRows)
      throw fields.wrong("rows", right);
    auto& buckets = adwin.rows.emplace_back();
    for (const nlohmann::json& bucket : row) {
      if (!is_numbers(bucket, 2, 0) || bucket[1].get<double>() < 0) throw fields.wrong("rows", right);
      buckets.push_back({bucket[0].get<double>(), bucket[1].get<double>()});
    }
  }
  adwin.since_drift = fields.integer("since_drift", 0, kMostCounted);
  return adwin;
}

StreamEvaluation::Detector detector_from(const JsonFields& fields) {
  const std::string name = fields.choice("name", {"none", "adwin", "page_hinkley"});
  if (name == "adwin") return adwin_from(fields);
  if (name == "none") return {};
  PageHinkley detector;
  detector.values = fields.integer("values", 0, kMostCounted);
  detector.mean = fields.number("mean", kAnyNumber);
  detector.sum = fields.number("sum", kAnyNumber);
  detector.least = fields.number("least", kAnyNumber);
  return detector;
}

}  // namespace

EvaluationJson to_json(const StreamEvaluation& evaluation) {
  EvaluationJson window = EvaluationJson::array();
  for (const StreamMeans::Bucket& bucket : evaluation.means.buckets) {
    EvaluationJson numbers = {bucket.samples};
    for (const double sum : bucket.sums) numbers.push_back(sum);
    window.push_back(std::move(numbers));
  }
  EvaluationJson drifts = EvaluationJson::array();
  for (const DriftEvent& drift : evaluation.drifts)
    drifts.push_back({drift.step, drift.samples, drift.value, drift.window});
  EvaluationJson raised = EvaluationJson::array();
  for (const RaisedRate& rate : evaluation.raised) raised.push_back({rate.first, rate.last, rate.factor});
  return {
      {"window", window},
      {"fading_sums", evaluation.means.fading_sums},
      {"fading_samples", evaluation.means.fading_samples},
      {"detector", std::visit([](const auto& state) { return detector_json(state); }, evaluation.detector)},
      {"drift_count", evaluation.drift_count},
      {"drifts", drifts},
      {"raised", raised}};
}

StreamEvaluation stream_evaluation_from_json(const JsonFields& fields) {
  StreamEvaluation evaluation;
  evaluation.means = means_from(fields);
  evaluation.detector =
      detector_from(JsonFields::of(fields.value("detector"), fields.source() + ", detector"));
  evaluation.drift_count = fields.integer("drift_count", 0, kMostCounted);
  const std::string right =
      fmt::format("at most {} lists of step, samples and two numbers", StreamEvaluation::kNamedDrifts);
  for (const nlohmann::json& drift : fields.list("drifts", right)) {
    if (!is_numbers(drift, 4, 2) || evaluation.drifts.size() == StreamEvaluation::kNamedDrifts)
      throw fields.wrong("drifts", right);
    evaluation.drifts.push_back(
        {drift[0].get<int64_t>(), drift[1].get<int64_t>(), drift[2].get<double>(), drift[3].get<double>()});
  }
  const std::string rates =
      fmt::format("at most {} lists of the first step, the last one and a factor above 0", kMostRaised);
  for (const nlohmann::json& rate : fields.list("raised", rates)) {
    if (!is_numbers(rate, 3, 2) || rate[2].get<double>() <= 0 || evaluation.raised.size() == kMostRaised)
      throw fields.wrong("raised", rates);
    evaluation.raised.push_back({rate[0].get<int64_t>(), rate[1].get<int64_t>(), rate[2].get<double>()});
  }
  return evaluation;
}

}  // namespace telar
