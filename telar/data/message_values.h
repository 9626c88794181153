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

/// The value as the id of a token, which may be outside the vocabulary.
int32_t token(double value, size_t index);

/// The number of a class that is given as a number, possibly with a fraction.
int32_t class_in(double value, int64_t classes);
/// Writes the number of a class.
void put_label(const SampleSpec& spec, int32_t label, std::span<std::byte> out);

void require_tokens(std::span<const int32_t> ids, int64_t vocabulary);

}  // namespace telar
