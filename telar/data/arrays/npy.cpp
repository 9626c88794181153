#include "telar/data/arrays/npy.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "telar/core/error.h"
#include "telar/data/in_memory.h"
#include "telar/data/pictures/byte_images.h"
#include "telar/data/rounding_loss.h"

namespace telar {
namespace {

/// Calls `take(value, index)` for each element; T is the type of the elements.
template <typename T, typename Take>
void for_each(const NpyElements& elements, const Take& take) {
  for (size_t i = 0; i < elements.bytes.size() / sizeof(T); ++i) {
    T value;
    std::memcpy(&value, elements.bytes.data() + i * sizeof(T), sizeof(T));
    take(value, i);
  }
}

template <typename Take>
void for_each_number(const NpyElements& elements, const Take& take) {
  const std::string& type = elements.array.header.type;
  if (type == "f4") return for_each<float>(elements, take);
  if (type == "f8") return for_each<double>(elements, take);
  if (type == "u1") return for_each<uint8_t>(elements, take);
  if (type == "i4") return for_each<int32_t>(elements, take);
  return for_each<int64_t>(elements, take);
}

bool is_real(const NpyHeader& header) { return header.type[0] == 'f'; }

/// Where an element is, for messages: "[3, 1]", as NumPy counts.
std::string place_in(const NpyElements& elements, size_t index) {
  const NpyHeader& header = elements.array.header;
  auto left = static_cast<int64_t>((elements.offset - header.offset) / header.element_bytes() + index);
  std::vector<int64_t> place(header.shape.rank());
  for (size_t axis = place.size(); axis-- > 0;) {
    place[axis] = left % header.shape[axis];
    left /= header.shape[axis];
  }
  return fmt::format("[{}]", fmt::join(place, ", "));
}

/// Integers in lowest … highest, as i32.
void read_integers(const NpyElements& elements, int64_t lowest, int64_t highest, std::span<int32_t> out) {
  for_each_number(elements, [&](auto value, size_t i) {
    const auto number = static_cast<int64_t>(value);
    if (number < lowest || number > highest) {
      throw user_error("{}: the value {} at {} is outside {} … {}", elements.array.file, number,
                       place_in(elements, i), lowest, highest);
    }
    out[i] = static_cast<int32_t>(number);
  });
}

/// T: float or double.
template <typename T>
void read_reals(const NpyElements& elements, std::span<T> out) {
  for_each_number(elements, [&](auto value, size_t i) {
    if (!std::isfinite(static_cast<float>(value))) {
      throw user_error("{}: the value {} at {} is not a finite f32 number", elements.array.file, value,
                       place_in(elements, i));
    }
    out[i] = static_cast<T>(value);
  });
}

Shape of_one_sample(const Shape& shape) {
  if (shape.rank() == 1) return {1};
  return Shape(std::vector<int64_t>(shape.begin() + 1, shape.end()));
}

void require_class_labels(const NpyArray& labels, int64_t classes) {
  if (is_real(labels.header)) {
    throw user_error("{}: labels of {} classes must be integers, not {}", labels.file, classes,
                     labels.header.type);
  }
  if (labels.header.shape.elements() != labels.header.shape[0]) {
    throw user_error("{}: labels of classes must have the shape [N] or [N, 1], not {}", labels.file,
                     labels.header.shape.str());
  }
}

/// All elements of an array in a file's bytes.
NpyElements all_elements(const NpyArray& array, const Bytes& bytes) {
  return {array, array.header.offset, std::span(bytes).subspan(array.header.offset)};
}

}  // namespace

SampleSpec npy_spec(const NpyArray& features, const NpyArray& labels, int64_t classes) {
  const Shape& shape = features.header.shape;
  const Shape& label_shape = labels.header.shape;
  if (shape[0] != label_shape[0]) {
    throw user_error("{} has {} samples {}, but {} has {} {}; axis 0 must be the same", features.file,
                     shape[0], shape.str(), labels.file, label_shape[0], label_shape.str());
  }
  SampleSpec spec;
  spec.features = of_one_sample(shape);
  spec.classes = classes;
  spec.dtype = features.header.type[0] == 'i' ? DType::i32 : DType::f32;
  spec.wide = features.header.type == "f8";
  if (classes > 0) {
    require_class_labels(labels, classes);
  } else {
    if (!is_real(labels.header)) {
      throw user_error("{}: targets of a regression must be f4 or f8, not {}; for classes, say how many",
                       labels.file, labels.header.type);
    }
    spec.labels = of_one_sample(label_shape);
  }
  return spec;
}

void read_npy_features(const NpyElements& elements, std::span<std::byte> features) {
  const std::string& type = elements.array.header.type;
  if (type == "f8") return read_reals(elements, as_doubles(features));
  if (type[0] != 'i') return read_reals(elements, as_floats(features));
  read_integers(elements, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max(),
                as_ints(features));
}

void read_npy_labels(const NpyElements& elements, int64_t classes, std::span<std::byte> labels) {
  if (classes == 0) return read_reals(elements, as_floats(labels));
  read_integers(elements, 0, classes - 1, as_ints(labels));
}

DatasetPtr npy_from_bytes(Bytes features, const Bytes& labels, int64_t classes,
                          const std::string& features_name, const std::string& labels_name,
                          float byte_scale) {
  const NpyArray array{features_name, parse_npy(features, features_name)};
  const NpyArray label_array{labels_name, parse_npy(labels, labels_name)};
  SampleSpec spec = npy_spec(array, label_array, classes);
  const auto samples = static_cast<size_t>(array.header.shape[0]);
  Bytes label_bytes(samples * spec.label_bytes());
  read_npy_labels(all_elements(label_array, labels), classes, std::as_writable_bytes(std::span(label_bytes)));
  if (array.header.type == "u1" && classes > 0) {
    std::vector<int32_t> class_of(samples);
    std::memcpy(class_of.data(), label_bytes.data(), label_bytes.size());
    const auto stride = static_cast<size_t>(spec.features.elements());
    return byte_images(std::move(spec), std::move(features), {array.header.offset, stride},
                       std::move(class_of), byte_scale);
  }
  Bytes values(samples * spec.feature_bytes());
  read_npy_features(all_elements(array, features), std::as_writable_bytes(std::span(values)));
  return in_memory(std::move(spec), std::move(values), 0, std::move(label_bytes));
}

std::string npy_target_warning(const Bytes& labels, const std::string& name) {
  const NpyArray array{name, parse_npy(labels, name)};
  RoundingLoss rounding(static_cast<size_t>(of_one_sample(array.header.shape).elements()));
  for_each_number(all_elements(array, labels),
                  [&](auto value, size_t) { rounding.add(static_cast<double>(value)); });
  return target_warning(rounding, name);
}

DatasetPtr open_npy(const std::string& features_path, const std::string& labels_path, int64_t classes) {
  return npy_from_bytes(read_file(features_path), read_file(labels_path), classes, features_path,
                        labels_path);
}

}  // namespace telar
