#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace telar {

/// The checksum of bytes that arrive in pieces: XXH3, 64 bits. It detects damage by hardware and software,
/// not by somebody who wants to deceive. value() may be read between two pieces; it covers all bytes so far.
class Checksum {
 public:
  Checksum();
  void add(std::span<const std::byte> bytes);
  uint64_t value() const;

 private:
  /// The state of libxxhash, whose header other sources need not include.
  alignas(64) std::array<std::byte, 576> state_;
};

}  // namespace telar
