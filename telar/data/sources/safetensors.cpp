#include "telar/io/safetensors.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "telar/core/error.h"
#include "telar/data/in_memory.h"
#include "telar/data/reading_rules.h"
#include "telar/data/rounding_loss.h"
#include "telar/data/source.h"

namespace telar {

namespace {

bool holds_integers(const SafetensorsEntry& tensor) { return tensor.dtype.starts_with('I'); }

std::string named(const std::string& tensor, const std::string& file) {
  return fmt::format("tensor \"{}\" of {}", tensor, file);
}

/// The shape of one sample of a tensor [N, …]; [1] of a tensor [N].
Shape sample_shape(const Shape& shape, const std::string& what) {
  if (std::any_of(shape.begin(), shape.end(), [](int64_t extent) { return extent < 1; }))
    throw user_error("{} has the shape {}; it must have at least one sample and no empty axis", what,
                     shape.str());
  if (shape.rank() == 1) return {1};
  return Shape(std::vector<int64_t>(shape.begin() + 1, shape.end()));
}

/// Reads a tensor from wherever it is; T is float or double.
template <typename T, typename Reader>
std::vector<T> tensor_numbers(const SafetensorsEntry& tensor, const Reader& read) {
  std::vector<T> values(static_cast<size_t>(tensor.shape.elements()));
  read(tensor, std::span(values));
  return values;
}

/// Values as integers from `least` to `most`.
template <typename Reader>
Bytes whole_numbers(const SafetensorsEntry& tensor, const Reader& read, double least, double most,
                    const std::string& what) {
  std::vector<int32_t> numbers;
  for (const double value : tensor_numbers<double>(tensor, read)) {
    if (!(value >= least && value <= most) || value != std::trunc(value))
      throw user_error("{}: value {} is {}; it must be an integer from {:.0f} to {:.0f}", what,
                       numbers.size(), value, least, most);
    numbers.push_back(static_cast<int32_t>(value));
  }
  return bytes_of(numbers);
}

/// Values of which each is finite as f32.
template <typename T, typename Reader>
Bytes finite_values(const SafetensorsEntry& tensor, const Reader& read, const std::string& what) {
  const std::vector<T> values = tensor_numbers<T>(tensor, read);
  const auto wrong =
      std::ranges::find_if(values, [](T value) { return !std::isfinite(static_cast<float>(value)); });
  if (wrong != values.end())
    throw user_error("{}: value {} is {}; it must be finite as f32", what, wrong - values.begin(), *wrong);
  return bytes_of(values);
}

/// The form of a sample, from the tensor of features [N, …].
SampleSpec spec_of(const SafetensorsEntry& features, DType dtype, int64_t rules, const std::string& what) {
  SampleSpec spec;
  spec.features = sample_shape(features.shape, what);
  spec.dtype = dtype;
  const bool exact_in_f32 = !holds_integers(features) && features.dtype != "F64";
  spec.wide = dtype == DType::f32 && !exact_in_f32 && rules >= kWideMessageRules;
  return spec;
}

template <typename Reader>
Bytes feature_bytes(const SafetensorsEntry& features, const Reader& read, const SampleSpec& spec,
                    const std::string& what) {
  using Token = std::numeric_limits<int32_t>;
  if (spec.dtype == DType::i32) return whole_numbers(features, read, Token::min(), Token::max(), what);
  return spec.wide ? finite_values<double>(features, read, what) : finite_values<float>(features, read, what);
}

/// Classes [N] or [N, 1], or with `classes` 0 targets [N, …].
template <typename Reader>
Bytes label_bytes(const SafetensorsEntry& labels, const Reader& read, int64_t classes, SampleSpec& spec,
                  const std::string& what) {
  spec.classes = classes;
  const Shape sample = sample_shape(labels.shape, what);
  if (classes == 0) {
    spec.labels = sample;
    return finite_values<float>(labels, read, what);
  }
  if (sample.elements() != 1)
    throw user_error("{} has the shape {}; labels of classes must have [N] or [N, 1]", what,
                     labels.shape.str());
  return whole_numbers(labels, read, 0, static_cast<double>(classes - 1), what);
}

OpenedSource open_tensors(const std::string& path, const Attributes& options, int64_t rules) {
  const SafetensorsFile file(path);
  const SafetensorsEntry& features = file.entry(options.text("features"));
  const SafetensorsEntry& labels = file.entry(options.text("labels"));
  if (features.shape[0] != labels.shape[0])
    throw user_error("{}: \"{}\" has {} samples {}, but \"{}\" has {} {}; axis 0 must be the same", path,
                     features.name, features.shape[0], features.shape.str(), labels.name, labels.shape[0],
                     labels.shape.str());
  const auto read = [&file](const SafetensorsEntry& tensor, auto values) { file.read(tensor.name, values); };
  const std::string what = named(features.name, path);
  SampleSpec spec = spec_of(features, holds_integers(features) ? DType::i32 : DType::f32, rules, what);
  Bytes values = feature_bytes(features, read, spec, what);
  Bytes classes = label_bytes(labels, read, options.integer("classes"), spec, named(labels.name, path));
  RoundingLoss rounding(static_cast<size_t>(spec.labels.elements()));
  if (spec.classes == 0)
    for (const double target : tensor_numbers<double>(labels, read)) rounding.add(target);
  std::string warning = target_warning(rounding, named(labels.name, path));
  OpenedSource opened{in_memory(std::move(spec), std::move(values), 0, std::move(classes))};
  if (!warning.empty()) opened.notes.push_back(std::move(warning));
  return opened;
}

OpenedSource open_tensor_file(const SourceRequest& request, Split part) {
  const std::string& path = request.options.text(part == Split::train ? "path" : "test_path");
  if (path.empty()) return {};
  return open_tensors(path, request.options, request.rules);
}

/// The length of the header, then its first character.
bool is_safetensors(const Bytes& file) {
  if (file.size() <= kSafetensorsLengthBytes || file[kSafetensorsLengthBytes] != '{') return false;
  uint64_t length = 0;
  for (size_t i = kSafetensorsLengthBytes; i-- > 0;) length = length << 8U | file[i];
  return length <= file.size() - kSafetensorsLengthBytes;
}

/// The tensor of the model's own features, or else the only tensor of the file.
DatasetPtr tensor_inputs(const InputFile& file, const Attributes* options) {
  const SafetensorsBytes all(std::as_bytes(std::span(file.bytes)), file.path);
  const std::vector<SafetensorsEntry>& tensors = all.entries();
  const auto found = std::ranges::find_if(tensors, [&](const SafetensorsEntry& tensor) {
    return options != nullptr && tensor.name == options->text("features");
  });
  if (found == tensors.end() && tensors.size() != 1)
    throw user_error("{} has {} tensors; to predict, it must have one{}", file.path, tensors.size(),
                     options == nullptr ? "" : fmt::format(", or \"{}\"", options->text("features")));
  const SafetensorsEntry& features = found == tensors.end() ? tensors.front() : *found;
  const std::string what = named(features.name, file.path);
  SampleSpec spec = spec_of(features, file.dtype, file.rules, what);
  spec.classes = 1;
  const auto read = [&all](const SafetensorsEntry& tensor, auto values) { all.read(tensor, values); };
  Bytes values = feature_bytes(features, read, spec, what);
  return in_memory(std::move(spec), std::move(values), 0, bytes_of(no_labels(features.shape[0])));
}

}  // namespace

void register_safetensors(SourceRegistry& registry) {
  registry.add(
      {.name = "safetensors",
       .summary = "a tensor of features and one of labels in a safetensors file",
       .options = {path_option("path", "The file."), test_path_option(),
                   samples_option(
                       "features", "x", {},
                       "Name of the tensor of features, [N, …]. Tensors of integers are token ids."),
                   samples_option("labels", "label", {},
                                  "Name of the tensor of labels: [N] integers, or targets [N, …] if "
                                  "`data.classes` is 0."),
                   classes_option()},
       .paths = {"path", "test_path"},
       .test_paths = {"test_path"},
       .test_by_user = true,
       .open = open_tensor_file,
       .check = [](const Attributes& options) { require_path("safetensors", options); },
       .inputs = {.described = "a safetensors file", .recognises = is_safetensors, .open = tensor_inputs}});
}

}  // namespace telar
