#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace telar {

/// Bytes of one element of a safetensors type ("F32", "BF16", "U8" …); 0 for a type that the format does not
/// have.
uint64_t safetensors_element_bytes(std::string_view dtype);

/// Whether decode_safetensors converts this type.
bool safetensors_decodes(std::string_view dtype);

/// Converts little-endian elements of a type that safetensors_decodes(), rounding each to the nearest number.
/// raw.size() == values.size() * safetensors_element_bytes(dtype).
void decode_safetensors(std::string_view dtype, std::span<const std::byte> raw, std::span<float> values);
void decode_safetensors(std::string_view dtype, std::span<const std::byte> raw, std::span<double> values);

}  // namespace telar
