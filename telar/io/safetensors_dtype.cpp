#include "telar/io/safetensors_dtype.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "telar/core/bf16.h"
#include "telar/core/dtype.h"
#include "telar/core/error.h"

namespace telar {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the format is little-endian and is read without conversion");

struct Type {
  std::string_view name;
  uint64_t bytes;
  bool decoded;
};

constexpr std::array<Type, 17> kTypes = {{{"F32", 4, true},
                                          {"F16", 2, true},
                                          {"BF16", 2, true},
                                          {"F64", 8, true},
                                          {"I64", 8, true},
                                          {"I32", 4, true},
                                          {"BOOL", 1, false},
                                          {"U8", 1, false},
                                          {"I8", 1, false},
                                          {"U16", 2, false},
                                          {"I16", 2, false},
                                          {"U32", 4, false},
                                          {"U64", 8, false},
                                          {"C64", 8, false},
                                          {"F8_E4M3", 1, false},
                                          {"F8_E5M2", 1, false},
                                          {"F8_E8M0", 1, false}}};

const Type* find_type(std::string_view dtype) {
  const auto* found =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const Type& t) { return t.name == dtype; });
  return found == kTypes.end() ? nullptr : found;
}

/// IEEE half precision: sign, 5 bits of exponent (bias 15), 10 of mantissa.
float from_f16(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000U) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1FU;
  const uint32_t mantissa = bits & 0x3FFU;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1.0p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  const uint32_t wide = exponent == 31 ? 255 : exponent + 127 - 15;
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

template <typename Raw, typename Number, typename Convert>
void convert_all(std::span<const std::byte> raw, std::span<Number> values, Convert convert) {
  for (size_t i = 0; i < values.size(); ++i) {
    Raw element;
    std::memcpy(&element, raw.data() + i * sizeof(Raw), sizeof(Raw));
    values[i] = static_cast<Number>(convert(element));
  }
}

template <typename Number>
void decode_all(std::string_view dtype, std::span<const std::byte> raw, std::span<Number> values) {
  const auto itself = [](auto element) { return element; };
  if (dtype == "F32") {
    convert_all<float>(raw, values, itself);
  } else if (dtype == "F16") {
    convert_all<uint16_t>(raw, values, from_f16);
  } else if (dtype == "BF16") {
    convert_all<uint16_t>(raw, values, from_bf16);
  } else if (dtype == "F64") {
    convert_all<double>(raw, values, itself);
  } else if (dtype == "I64") {
    convert_all<int64_t>(raw, values, itself);
  } else if (dtype == "I32") {
    convert_all<int32_t>(raw, values, itself);
  } else {
    throw run_error("tensors of type {} cannot be converted to float", dtype);
  }
}

}  // namespace

uint64_t safetensors_element_bytes(std::string_view dtype) {
  const Type* type = find_type(dtype);
  return type == nullptr ? 0 : type->bytes;
}

bool safetensors_decodes(std::string_view dtype) {
  const Type* type = find_type(dtype);
  return type != nullptr && type->decoded;
}

void decode_safetensors(std::string_view dtype, std::span<const std::byte> raw, std::span<float> values) {
  decode_all(dtype, raw, values);
}

void decode_safetensors(std::string_view dtype, std::span<const std::byte> raw, std::span<double> values) {
  decode_all(dtype, raw, values);
}

}  // namespace telar
