#pragma once

#include <cstdint>
#include <span>

namespace telar {

/// The loops over the numbers of a sample that every epoch goes through. Their bits are the same on every processor: a product is rounded
/// before something is added to it.

/// out[i] = bytes[i] × scale; as many bytes as numbers.
void scaled_bytes(std::span<const uint8_t> bytes, float scale, std::span<float> out);

/// values[i] = values[i] × scale + shift.
void scale_and_shift(std::span<float> values, float scale, float shift);

}  // namespace telar
