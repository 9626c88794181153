#include "telar/data/source.h"

#include <algorithm>
#include <utility>

#include "telar/core/error.h"
#include "telar/core/suggest.h"

namespace telar {

/// Generated from the names of the files in sources/ (cmake/Registry.cmake).
void register_all(SourceRegistry& registry);

void SourceRegistry::sort() { std::ranges::sort(types_, {}, &SourceType::name); }

const std::vector<SourceType>& source_types() {
  static const SourceRegistry registry = [] {
    SourceRegistry all;
    register_all(all);
    all.sort();
    return all;
  }();
  return registry.types();
}

const SourceType& source_type(const std::string& name) {
  for (const SourceType& type : source_types())
    if (type.name == name) return type;
  const std::string near = nearest(name, source_names());
  throw user_error("unknown source '{}'; {}the sources are {}", name,
                   near.empty() ? "" : "did you mean '" + near + "'? ", one_of(source_names()));
}

std::vector<std::string> source_names(const std::function<bool(const SourceType&)>& has) {
  std::vector<std::string> names;
  for (const SourceType& type : source_types())
    if (!has || has(type)) names.push_back(type.name);
  return names;
}

Option path_option(const std::string& name, const std::string& help, const std::string& fallback) {
  return {.name = name, .fallback = fallback, .help = help, .on_resume = OnResume::free};
}

Option test_path_option() {
  return path_option(
      "test_path",
      "The same for the test samples. Empty: `data.test` sets aside a fraction of the other samples.");
}

Option classes_option() {
  return samples_option("classes", int64_t{10}, {.least = 0, .most = 1e6},
                        "Number of classes; labels are 0 … classes − 1. 0: regression (not for idx).");
}

Option samples_option(std::string name, Attribute fallback, ValueRule rule, std::string help) {
  return {.name = std::move(name),
          .fallback = std::move(fallback),
          .rule = std::move(rule),
          .help = std::move(help),
          .on_resume = OnResume::refused,
          .because = kDeterminesSamples};
}

SampleSpec spec_of_options(const Attributes& options) {
  SampleSpec spec;
  spec.features = Shape(options.integers("shape"));
  spec.dtype = options.integer("vocabulary") > 0 ? DType::i32 : DType::f32;
  spec.vocabulary = options.integer("vocabulary");
  spec.classes = options.integer("classes");
  if (spec.classes == 0) spec.labels = {1};
  return spec;
}

void require_path(const std::string& name, const Attributes& options) {
  if (options.text("path").empty())
    throw OptionError("source", fmt::format("source {} needs 'data.path'", name));
}

std::vector<int32_t> no_labels(int64_t count) { return std::vector<int32_t>(static_cast<size_t>(count)); }

}  // namespace telar
