#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "telar/comm/store/store_client.h"

namespace telar {

/// Floats of a block: the largest payload of a frame (1 MB), and what a server locks at once.
inline constexpr size_t kBlockFloats = size_t{256} << 10;
/// Ranges begin and end at multiples of this (a cache line), as pieces do.
inline constexpr size_t kRangeFloats = 16;
inline constexpr size_t kMostRoundMembers = 1024;

enum class FrameKind : uint8_t { exchange = 1, read = 2, write = 3, answer = 4, welcome = 5 };

enum FrameFlag : uint8_t {
  kPush = 1,
  kPull = 2,
  kRound = 4,
  kLate = 8,
  kNotFinite = 16,
};

/// How a frame begins, little-endian. Behind it: the ids of the round's members (4 bytes each), then the payload: the floats of the
/// range (exchange with kPush, write, answer with kPull), or a protobuf message (welcome).
struct FrameHeader {
  FrameKind kind = FrameKind::exchange;
  uint8_t flags = 0;
  uint16_t arena = 0;     ///< read, write: 0 for the parameters, i + 1 for StoreUpdate::slots()[i]
  uint32_t members = 0;   ///< of the round
  uint64_t sequence = 0;  ///< of the request, from 1 on; an answer has that of its request
  uint64_t begin = 0;     ///< floats of the arena; a range lies in one block
  uint64_t end = 0;
  int64_t round = 0;
  float learning_rate = 0;
  float samples = 0;
  int64_t version = 0;   ///< exchange: as it was pulled, -1: never; answer: as it is now
  double staleness = 0;  ///< answer
};
static_assert(sizeof(FrameHeader) == 64);

inline constexpr size_t kLargestFrame =
    sizeof(FrameHeader) + kMostRoundMembers * sizeof(uint32_t) + kBlockFloats * sizeof(float);

/// Floats that lie in one or several places, as they came from the network; at any address.
class FramePayload {
 public:
  FramePayload() = default;
  explicit FramePayload(std::vector<std::span<const std::byte>> parts) : parts_(std::move(parts)) {}

  size_t bytes() const;
  void copy_to(std::span<std::byte> out) const;
  /// The floats themselves where they lie in one place, else gathered in `scratch`.
  const float* floats(std::span<float> scratch) const;

 private:
  std::vector<std::span<const std::byte>> parts_;
};

struct Frame {
  FrameHeader header;
  std::vector<uint32_t> members;
  FramePayload payload;  ///< views of the bytes that were parsed
};

/// Reads a frame, whose bytes may lie in several places. Throws Error (user) for anything that is not a whole and sensible frame. What depends
/// on the receiver (is the range within its arena? does that arena exist?) is not looked at.
Frame parse_frame(std::span<const std::span<const std::byte>> parts);

/// Looks at what stands in a header and its members, as parse_frame does. Throws Error (user).
void check_frame(const FrameHeader& header, std::span<const uint32_t> members);

/// The ranges of an exchange, block by block: calls part(begin, end).
template <typename Function>
void for_each_block(size_t begin, size_t end, const Function& part) {
  while (begin < end) {
    const size_t next = std::min(end, (begin / kBlockFloats + 1) * kBlockFloats);
    part(begin, next);
    begin = next;
  }
}

}  // namespace telar
