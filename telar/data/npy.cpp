#include "telar/data/npy.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "telar/core/error.h"
#include "telar/data/byte_images.h"
#include "telar/data/in_memory.h"

namespace telar {
namespace {

/// Calls `take(value, offset)` for each element of the array; T is its element type.
template <typename T, typename Take>
void for_each(const Bytes& bytes, const NpyHeader& header, Take take) {
  for (size_t at = header.offset; at < bytes.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    take(value, at);
  }
}

template <typename Take>
void for_each_integer(const Bytes& bytes, const NpyHeader& header, Take take) {
  if (header.type == "u1") return for_each<uint8_t>(bytes, header, take);
  if (header.type == "i4") return for_each<int32_t>(bytes, header, take);
  return for_each<int64_t>(bytes, header, take);
}

template <typename Take>
void for_each_real(const Bytes& bytes, const NpyHeader& header, Take take) {
  if (header.type == "f4") return for_each<float>(bytes, header, take);
  return for_each<double>(bytes, header, take);
}

bool is_real(const NpyHeader& header) { return header.type[0] == 'f'; }

/// Integers in lowest … highest, as i32.
std::vector<int32_t> integers(const Bytes& bytes, const NpyHeader& header, int64_t lowest, int64_t highest,
                              const std::string& name) {
  std::vector<int32_t> values;
  values.reserve(static_cast<size_t>(header.shape.elements()));
  for_each_integer(bytes, header, [&](int64_t value, size_t at) {
    if (value < lowest || value > highest) {
      throw user_error("{}: the value {} at offset {} is outside {} … {}", name, value, at, lowest, highest);
    }
    values.push_back(static_cast<int32_t>(value));
  });
  return values;
}

std::vector<float> reals(const Bytes& bytes, const NpyHeader& header, const std::string& name) {
  std::vector<float> values;
  values.reserve(static_cast<size_t>(header.shape.elements()));
  for_each_real(bytes, header, [&](double value, size_t at) {
    const auto narrowed = static_cast<float>(value);
    if (!std::isfinite(narrowed)) {
      throw user_error("{}: the value {} at offset {} is not a finite f32 number", name, value, at);
    }
    values.push_back(narrowed);
  });
  return values;
}

Shape of_one_sample(const Shape& shape) {
  if (shape.rank() == 1) return {1};
  return Shape(std::vector<int64_t>(shape.begin() + 1, shape.end()));
}

std::vector<int32_t> class_labels(const Bytes& bytes, const NpyHeader& header, int64_t classes,
                                  const std::string& name) {
  if (is_real(header)) {
    throw user_error("{}: labels of {} classes must be integers, not {}", name, classes, header.type);
  }
  if (header.shape.elements() != header.shape[0]) {
    throw user_error("{}: labels of classes must have the shape [N] or [N, 1], not {}", name,
                     header.shape.str());
  }
  return integers(bytes, header, 0, classes - 1, name);
}

}  // namespace

DatasetPtr npy_from_bytes(Bytes features, const Bytes& labels, int64_t classes,
                          const std::string& features_name, const std::string& labels_name) {
  const NpyHeader header = parse_npy(features, features_name);
  const NpyHeader label_header = parse_npy(labels, labels_name);
  if (header.shape[0] != label_header.shape[0]) {
    throw user_error("{} has {} samples {}, but {} has {} {}; axis 0 must be the same", features_name,
                     header.shape[0], header.shape.str(), labels_name, label_header.shape[0],
                     label_header.shape.str());
  }
  SampleSpec spec;
  spec.features = of_one_sample(header.shape);
  spec.classes = classes;
  spec.dtype = header.type[0] == 'i' ? DType::i32 : DType::f32;

  std::vector<int32_t> class_of;
  Bytes label_bytes;
  if (classes > 0) {
    class_of = class_labels(labels, label_header, classes, labels_name);
    label_bytes = bytes_of(class_of);
  } else {
    if (!is_real(label_header)) {
      throw user_error("{}: targets of a regression must be f4 or f8, not {}; for classes, say how many",
                       labels_name, label_header.type);
    }
    spec.targets = of_one_sample(label_header.shape);
    label_bytes = bytes_of(reals(labels, label_header, labels_name));
  }
  if (header.type == "u1" && classes > 0) {
    const auto stride = static_cast<size_t>(spec.features.elements());
    return byte_images(std::move(spec), std::move(features), {header.offset, stride}, std::move(class_of),
                       1.0F);
  }
  if (is_real(header)) {
    return in_memory(std::move(spec), bytes_of(reals(features, header, features_name)), 0,
                     std::move(label_bytes));
  }
  constexpr int64_t kLowest = std::numeric_limits<int32_t>::min();
  constexpr int64_t kHighest = std::numeric_limits<int32_t>::max();
  const std::vector<int32_t> values = integers(features, header, kLowest, kHighest, features_name);
  if (spec.dtype == DType::i32)
    return in_memory(std::move(spec), bytes_of(values), 0, std::move(label_bytes));
  return in_memory(std::move(spec), bytes_of(std::vector<float>(values.begin(), values.end())), 0,
                   std::move(label_bytes));
}

DatasetPtr open_npy(const std::string& features_path, const std::string& labels_path, int64_t classes) {
  return npy_from_bytes(read_file(features_path), read_file(labels_path), classes, features_path,
                        labels_path);
}

}  // namespace telar
