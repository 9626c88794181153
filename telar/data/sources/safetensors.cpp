#include "telar/io/safetensors.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "telar/core/error.h"
#include "telar/data/in_memory.h"
#include "telar/data/source.h"

namespace telar {

namespace {

constexpr float kMostExact = 1 << 24;  // integers are read as f32, which has all of them up to here

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

/// Values as integers from `least` to `most`.
std::vector<int32_t> whole_numbers(const NamedTensor& tensor, float least, float most,
                                   const std::string& what) {
  std::vector<int32_t> numbers;
  numbers.reserve(tensor.data.size());
  for (const float value : tensor.data) {
    if (!(value >= least && value <= most) || value != std::trunc(value))
      throw user_error("{}: value {} is {}; it must be an integer from {:.0f} to {:.0f}", what,
                       numbers.size(), value, least, most);
    numbers.push_back(static_cast<int32_t>(value));
  }
  return numbers;
}

Bytes finite_values(const NamedTensor& tensor, const std::string& what) {
  const auto wrong =
      std::find_if(tensor.data.begin(), tensor.data.end(), [](float value) { return !std::isfinite(value); });
  if (wrong != tensor.data.end())
    throw user_error("{}: value {} is {}; it must be finite", what, wrong - tensor.data.begin(), *wrong);
  return bytes_of(tensor.data);
}

/// The type and the shape of a sample, from the tensor of features [N, …].
SampleSpec spec_of(const SafetensorsEntry& features, const std::string& what) {
  SampleSpec spec;
  spec.features = sample_shape(features.shape, what);
  spec.dtype = holds_integers(features) ? DType::i32 : DType::f32;
  return spec;
}

Bytes feature_bytes(const NamedTensor& features, DType dtype, const std::string& what) {
  return dtype == DType::i32 ? bytes_of(whole_numbers(features, -kMostExact, kMostExact, what))
                             : finite_values(features, what);
}

/// Classes [N] or [N, 1], or with `classes` 0 targets [N, …].
Bytes label_bytes(const NamedTensor& labels, int64_t classes, SampleSpec& spec, const std::string& what) {
  spec.classes = classes;
  const Shape sample = sample_shape(labels.shape, what);
  if (classes == 0) {
    spec.targets = sample;
    return finite_values(labels, what);
  }
  if (sample.elements() != 1)
    throw user_error("{} has the shape {}; labels of classes must have [N] or [N, 1]", what,
                     labels.shape.str());
  return bytes_of(whole_numbers(labels, 0, static_cast<float>(classes - 1), what));
}

DatasetPtr open_tensors(const std::string& path, const Attributes& options) {
  const SafetensorsFile file(path);
  const std::string features_name = options.text("features");
  const std::string labels_name = options.text("labels");
  const SafetensorsEntry& features = file.entry(features_name);
  const SafetensorsEntry& labels = file.entry(labels_name);
  if (features.shape[0] != labels.shape[0])
    throw user_error("{}: \"{}\" has {} samples {}, but \"{}\" has {} {}; axis 0 must be the same", path,
                     features_name, features.shape[0], features.shape.str(), labels_name, labels.shape[0],
                     labels.shape.str());
  SampleSpec spec = spec_of(features, named(features_name, path));
  Bytes values = feature_bytes(file.read(features_name), spec.dtype, named(features_name, path));
  Bytes classes =
      label_bytes(file.read(labels_name), options.integer("classes"), spec, named(labels_name, path));
  return in_memory(std::move(spec), std::move(values), 0, std::move(classes));
}

OpenedSource open_tensor_file(const SourceRequest& request, Split part) {
  const std::string& path = request.options.text(part == Split::train ? "path" : "test_path");
  if (path.empty()) return {};
  return {open_tensors(path, request.options)};
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
  const auto bytes = std::as_bytes(std::span(file.bytes));
  const std::vector<NamedTensor> tensors = parse_safetensors(bytes, file.path);
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const NamedTensor& tensor) {
    return options != nullptr && tensor.name == options->text("features");
  });
  if (found == tensors.end() && tensors.size() != 1)
    throw user_error("{} has {} tensors; to predict, it must have one{}", file.path, tensors.size(),
                     options == nullptr ? "" : fmt::format(", or \"{}\"", options->text("features")));
  const NamedTensor& features = found == tensors.end() ? tensors.front() : *found;
  const std::string what = named(features.name, file.path);
  SampleSpec spec;
  spec.features = sample_shape(features.shape, what);
  spec.dtype = file.dtype;
  spec.classes = 1;
  return in_memory(std::move(spec), feature_bytes(features, file.dtype, what), 0,
                   bytes_of(no_labels(features.shape[0])));
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
