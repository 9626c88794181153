#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "telar/data/dataset.h"

namespace telar {

/// What the decoders of messages have in common. Each throws Error (user) for a value that no sample has.

/// The value as f32, which must be finite. `what` and `index` name it: "feature", 3.
float finite(double value, std::string_view what, size_t index);
void require_finite(std::span<const float> values, std::string_view what);

/// How a number of a sample is stored.
enum class NumberType : uint8_t { f32, f64, token };
NumberType feature_type(const SampleSpec& spec);
size_t size_of(NumberType type);
/// Writes number `index` of a sample. An f64 is finite as f32, too; a token may be outside the vocabulary.
void put_number(NumberType type, double value, std::string_view what, size_t index, std::span<std::byte> out);

/// The number of a class that is given as a number, possibly with a fraction.
int32_t class_in(double value, int64_t classes);
/// Writes the number of a class.
void put_label(const SampleSpec& spec, int32_t label, std::span<std::byte> out);

void require_tokens(std::span<const int32_t> ids, int64_t vocabulary);

}  // namespace telar
