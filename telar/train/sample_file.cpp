#include "telar/train/sample_file.h"

#include <nlohmann/json.hpp>

#include "telar/core/error.h"
#include "telar/io/json_fields.h"
#include "telar/train/job.h"

namespace telar {

namespace {

constexpr int64_t kMostExtent = int64_t{1} << 32U;
constexpr int64_t kMostClasses = 1'000'000;  // the limit of data.classes
constexpr int64_t kMostTokens = 1 << 30;     // the limit of data.vocabulary

Shape shape_from(const JsonFields& fields, const std::string& name) {
  Shape shape(fields.integers(name, 1, kMostExtent));
  try {
    shape.elements();
  } catch (const Error& error) {
    throw user_error("{}: {}: {}", fields.source(), name, error.what());
  }
  return shape;
}

}  // namespace

std::string to_json(const SampleSpec& spec, int64_t rules) {
  nlohmann::ordered_json json;
  json["features"] = spec.features.dims();
  json["dtype"] = name_of(spec.dtype);
  if (spec.vocabulary > 0) json["vocabulary"] = spec.vocabulary;
  json["classes"] = spec.classes;
  json["targets"] = spec.labels.dims();
  json["class_names"] = spec.class_names;
  json["rules"] = rules;
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

int64_t sample_rules_from_json(const std::string& text, const std::string& source) {
  const JsonFields fields(text, source);
  return fields.has("rules") ? fields.integer("rules", kFirstRules, kNewestRules) : kFirstRules;
}

SampleSpec sample_spec_from_json(const std::string& text, const std::string& source) {
  const JsonFields fields(text, source);
  SampleSpec spec;
  spec.features = shape_from(fields, "features");
  spec.dtype = fields.choice("dtype", {"f32", "i32"}) == "i32" ? DType::i32 : DType::f32;
  if (fields.has("vocabulary")) spec.vocabulary = fields.integer("vocabulary", 0, kMostTokens);
  spec.classes = fields.integer("classes", 0, kMostClasses);
  spec.labels = shape_from(fields, "targets");
  spec.class_names = fields.texts("class_names");
  if (spec.features.rank() == 0) throw fields.wrong("features", "a list of at least one extent");
  if (spec.classes == 0 && spec.labels.rank() == 0)
    throw fields.wrong("targets", "a list of at least one extent, because classes is 0");
  if (!spec.class_names.empty() && static_cast<int64_t>(spec.class_names.size()) != spec.classes)
    throw fields.wrong("class_names", fmt::format("empty, or a list of {} names", spec.classes));
  return spec;
}

}  // namespace telar
