#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace telar {

/// Floats of a block: the largest payload of a frame (1 MB), and the unit that a server locks.
inline constexpr size_t kBlockFloats = size_t{256} << 10;
/// Ranges begin and end at multiples of this (a cache line), and so do pieces.
inline constexpr size_t kRangeFloats = 16;
inline constexpr size_t kMostRoundMembers = 1024;

enum class FrameKind : uint8_t {
  exchange = 1,
  read = 2,
  write = 3,
  answer = 4,
  welcome = 5,
  // Between the servers of a chain (store_chain.h):
  hello = 6,   ///< ChainHello
  fill = 7,    ///< the floats of an arena of a block, for ChainCopy
  filled = 8,  ///< ChainCopy, after the floats of all arenas
  update = 9,  ///< ChainUpdate
  held = 10    ///< ChainHeld
};

enum FrameFlag : uint8_t {
  kPush = 1,
  kPull = 2,
  kRound = 4,
  kLate = 8,
  kNotFinite = 16,
  kPlainPayload = 32,  ///< in any frame: the checksum does not cover the payload
  kWhole = 64          ///< ChainHello::whole
};

/// The head of a frame, little-endian. It is followed by the ids of the round's members (4 bytes each) and
/// the payload: the floats of the range (exchange with kPush, write, answer with kPull, fill, update),
/// perhaps encoded (exchange), a protobuf message (welcome), or the state of a block (filled:
/// encode_block_state()).
struct FrameHeader {
  FrameKind kind = FrameKind::exchange;
  uint8_t flags = 0;
  /// read, write, fill: 0 for the parameters, i + 1 for StoreUpdate::slots()[i]; exchange with kPush: the
  /// payload
  /// (telar/io/payload.h), 0 for floats
  uint16_t arena = 0;
  uint32_t members = 0;  ///< of the round
  /// of the request, from 1; an answer has that of its request; in a chain: that of the block's last update
  uint64_t sequence = 0;
  uint64_t begin = 0;  ///< floats of the arena; a range is within one block
  uint64_t end = 0;
  int64_t round = 0;
  float learning_rate = 0;
  float samples = 0;
  int64_t version = 0;    ///< exchange: pulled, -1: never; answer: current; write: that of the values;
                          ///< hello: ChainHello::held; fill, filled, update: ChainEntry::place, or, in
                          ///< one, where the floats are in ChainMemory
  double number = 0;      ///< answer: the staleness; exchange with kPush, update: StoreExchange::work
  uint64_t checksum = 0;  ///< frame_checksum(); not used in shared memory
};
static_assert(sizeof(FrameHeader) == 72);

inline constexpr size_t kLargestFrame =
    sizeof(FrameHeader) + kMostRoundMembers * sizeof(uint32_t) + kBlockFloats * sizeof(float);

/// Floats as received from the network: in one or several pieces, at any alignment.
class FramePayload {
 public:
  FramePayload() = default;
  explicit FramePayload(std::vector<std::span<const std::byte>> parts) : parts_(std::move(parts)) {}
  /// Floats of its own.
  explicit FramePayload(std::vector<float> floats);

  size_t bytes() const;
  void copy_to(std::span<std::byte> out) const;
  /// Returns a pointer to the floats if they are contiguous and aligned; otherwise gathers them in `scratch`.
  const float* floats(std::span<float> scratch) const;

 private:
  std::vector<std::span<const std::byte>> parts_;
  std::shared_ptr<const std::vector<float>> own_;
};

/// A frame between the servers of a chain, to be sent once or again.
struct SharedFrame {
  FrameHeader header;
  std::shared_ptr<const std::byte> payload;  ///< null: none
  size_t bytes = 0;                          ///< of the payload
};

struct Frame {
  FrameHeader header;
  std::vector<uint32_t> members;
  FramePayload payload;  ///< views of the parsed bytes
};

/// The checksum of a frame: of its header without the field `checksum`, and of what follows the header, which
/// may be in several pieces; with kPlainPayload, of the header and the members. TCP's own has 16 bits and
/// misses one damaged packet in 65536.
uint64_t frame_checksum(const FrameHeader& header, std::span<const std::span<const std::byte>> rest);

/// Parses a frame, whose bytes may be in several pieces. Throws Error (run) if its checksum is wrong, so that
/// it may arrive well when it is sent again, and Error (user) if the frame is incomplete or invalid. Does not
/// check what depends on the receiver (whether the arena exists and contains the range).
Frame parse_frame(std::span<const std::span<const std::byte>> parts);

/// Checks a header and its members as parse_frame does. Throws Error (user).
void check_frame(const FrameHeader& header, std::span<const uint32_t> members);

/// Splits a range by blocks and calls part(begin, end) for each piece.
template <typename Function>
void for_each_block(size_t begin, size_t end, const Function& part) {
  while (begin < end) {
    const size_t next = std::min(end, (begin / kBlockFloats + 1) * kBlockFloats);
    part(begin, next);
    begin = next;
  }
}

}  // namespace telar
