#include "telar/train/sample_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "telar/core/error.h"

namespace telar {

namespace {

Shape shape_from(const nlohmann::json& json) {
  const auto dims = json.get<std::vector<int64_t>>();
  if (std::any_of(dims.begin(), dims.end(), [](int64_t extent) { return extent < 1; })) {
    throw user_error("{} is not a shape; every extent must be at least 1", json.dump());
  }
  return Shape(dims);
}

}  // namespace

std::string to_json(const SampleSpec& spec) {
  nlohmann::ordered_json json;
  json["features"] = spec.features.dims();
  json["dtype"] = name_of(spec.dtype);
  json["classes"] = spec.classes;
  json["targets"] = spec.targets.dims();
  json["class_names"] = spec.class_names;
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

SampleSpec sample_spec_from_json(const std::string& text, const std::string& source) {
  try {
    const auto json = nlohmann::json::parse(text);
    SampleSpec spec;
    spec.features = shape_from(json.at("features"));
    spec.dtype = json.at("dtype").get<std::string>() == "i32" ? DType::i32 : DType::f32;
    json.at("classes").get_to(spec.classes);
    spec.targets = shape_from(json.at("targets"));
    json.at("class_names").get_to(spec.class_names);
    if (spec.features.rank() == 0) throw user_error("the features have no axis");
    return spec;
  } catch (const std::exception& error) {
    throw user_error("{} does not describe samples: {}", source, error.what());
  }
}

}  // namespace telar
