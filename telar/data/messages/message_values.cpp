#include "telar/data/messages/message_values.h"

#include <cmath>
#include <cstring>

#include "telar/core/error.h"
#include "telar/data/pictures/pixel_loops.h"

namespace telar {

float finite(double value, std::string_view what, size_t index) {
  const auto number = static_cast<float>(value);
  if (!std::isfinite(number))
    throw user_error("{} {} is {}; a finite f32 number is needed", what, index, value);
  return number;
}

void require_finite(std::span<const float> values, std::string_view what) {
  if (all_finite(values)) return;
  for (size_t i = 0; i < values.size(); ++i) finite(values[i], what, i);
}

namespace {

int32_t token(double value, size_t index) {
  if (value != std::floor(value) || std::fabs(value) > 2e9)
    throw user_error("token {} is {}; an integer is needed", index, value);
  return static_cast<int32_t>(value);
}

}  // namespace

NumberType feature_type(const SampleSpec& spec) {
  if (spec.dtype == DType::i32) return NumberType::token;
  return spec.wide ? NumberType::f64 : NumberType::f32;
}

size_t size_of(NumberType type) { return type == NumberType::f64 ? sizeof(double) : sizeof(float); }

void put_number(NumberType type, double value, std::string_view what, size_t index,
                std::span<std::byte> out) {
  if (type == NumberType::token) {
    as_ints(out)[index] = token(value, index);
    return;
  }
  const float narrow = finite(value, what, index);
  if (type == NumberType::f64) {
    as_doubles(out)[index] = value;
  } else {
    as_floats(out)[index] = narrow;
  }
}

int32_t class_in(double value, int64_t classes) {
  if (!(value >= 0 && value < static_cast<double>(classes)) || value != std::floor(value))
    throw user_error("the label is {}; the classes are 0 … {}", value, classes - 1);
  return static_cast<int32_t>(value);
}

void put_label(const SampleSpec& spec, int32_t label, std::span<std::byte> out) {
  if (label < 0 || label >= spec.classes)
    throw user_error("the label is {}; the classes are 0 … {}", label, spec.classes - 1);
  std::memcpy(out.data(), &label, sizeof label);
}

void require_tokens(std::span<const int32_t> ids, int64_t vocabulary) {
  if (all_below(ids, vocabulary)) return;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocabulary)
      throw user_error("token {} is {}; the vocabulary is 0 … {}", i, ids[i], vocabulary - 1);
  }
}

}  // namespace telar
