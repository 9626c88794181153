#pragma once

#include <array>
#include <string_view>

#include "fuzz.h"
#include "telar/data/messages/message_format.h"

namespace telar::fuzz {

/// The first byte chooses the format; the others are a message. False if it is refused.
inline bool read_message(std::string_view input) {
  if (input.empty()) return false;
  constexpr std::array<const char*, 5> kNames = {"raw", "raw", "raw", "json", "csv"};
  constexpr std::array<const char*, 5> kTypes = {"u8", "f32", "i32", "f32", "f32"};
  const auto choice = static_cast<unsigned char>(input.front());
  MessageFormat format;
  format.name = kNames[choice % kNames.size()];
  format.dtype = kTypes[choice % kTypes.size()];
  format.spec.features = {3};
  format.spec.classes = (choice & 64U) != 0 ? 0 : (choice & 32U) != 0 ? 1000 : 10;
  if (format.spec.classes == 0) format.spec.labels = {1};
  const bool tokens = format.dtype == std::string_view("i32") || (format.name == "json" && choice >= 128);
  if (tokens) {
    format.dtype = "i32";
    format.spec.dtype = DType::i32;
    format.vocabulary = 100;
  }
  if (format.name == "json") format.fields = {"x", "y"};
  std::array<float, 3> features{};
  std::array<int32_t, 1> label{};
  try {
    message_decoder(format)->decode(input.substr(1), std::as_writable_bytes(std::span(features)),
                                    std::as_writable_bytes(std::span(label)));
  } catch (const Error&) {
    return false;  // the right answer to a damaged message
  }
  if (format.spec.classes > 0 && (label[0] < 0 || label[0] >= format.spec.classes)) __builtin_trap();
  return true;
}

}  // namespace telar::fuzz
