#pragma once

#include <cstdint>
#include <span>

namespace telar {

/// Loops over all numbers of a sample, run in every epoch. Their results have the same bits on every CPU: a
/// product is rounded before something is added to it.

/// ITU-R BT.601 of each pixel: 0.299 R + 0.587 G + 0.114 B. `rgb`: three times as many bytes as `grey`.
void luma_of_rgb(std::span<const uint8_t> rgb, std::span<uint8_t> grey);

/// out[i] = bytes[i] × scale; both spans have the same size.
void scaled_bytes(std::span<const uint8_t> bytes, float scale, std::span<float> out);

/// values[i] = values[i] × scale + shift.
void scale_and_shift(std::span<float> values, float scale, float shift);

/// Whether no value is NaN or infinite.
bool all_finite(std::span<const float> values);

/// Whether all values are 0 … limit - 1. `limit`: 0 … 2³¹.
bool all_below(std::span<const int32_t> values, int64_t limit);

}  // namespace telar
