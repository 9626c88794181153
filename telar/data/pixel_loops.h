#pragma once

#include <cstdint>
#include <span>

namespace telar {

/// Loops over all numbers of a sample, run in every epoch. Their results have the same bits on every CPU: a
/// product is rounded before something is added to it.

/// out[i] = bytes[i] × scale; both spans have the same size.
void scaled_bytes(std::span<const uint8_t> bytes, float scale, std::span<float> out);

/// values[i] = values[i] × scale + shift.
void scale_and_shift(std::span<float> values, float scale, float shift);

}  // namespace telar
