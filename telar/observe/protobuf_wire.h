#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace telar {

/// A protocol buffer message that is built field by field (https://protobuf.dev/programming-guides/encoding).
/// Sufficient for TensorBoard's few fixed messages.
class WireMessage {
 public:
  WireMessage& integer(int field, int64_t value) {
    tag(field, 0);
    varint(static_cast<uint64_t>(value));
    return *this;
  }
  WireMessage& real64(int field, double value) {
    tag(field, 1);
    fixed(std::bit_cast<uint64_t>(value), 8);
    return *this;
  }
  WireMessage& real32(int field, float value) {
    tag(field, 5);
    fixed(std::bit_cast<uint32_t>(value), 4);
    return *this;
  }
  WireMessage& text(int field, std::string_view value) {
    tag(field, 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  WireMessage& message(int field, const WireMessage& value) { return text(field, value.bytes_); }

  const std::string& bytes() const { return bytes_; }

 private:
  void tag(int field, unsigned wire_type) { varint(static_cast<uint64_t>(field) << 3 | wire_type); }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }
  void fixed(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_.push_back(static_cast<char>(value >> (8 * i)));
  }
  std::string bytes_;
};

}  // namespace telar
