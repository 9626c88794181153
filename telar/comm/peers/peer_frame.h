#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "telar/comm/linked/links.h"

namespace telar {

/// Which messages between two peers follow each other: those of equal keys.
struct MessageKey {
  uint16_t generation = 0;  ///< of the group (ElasticLinks); 0: none
  Lane lane = Lane::all;
  uint32_t tag = 0;

  bool operator<(const MessageKey& other) const {
    return std::tie(generation, lane, tag) < std::tie(other.generation, other.lane, other.tag);
  }
};

/// A part of a message between two peers, at the head of each gRPC message.
struct PeerFrame {
  enum class Kind : uint8_t {
    welcome,  ///< the first one, of the process that accepts a connection
    part,     ///< of a message
    failed,   ///< the sender ends, and all must; a sentence follows
    goodbye,  ///< the sender ends as planned
    left      ///< the sender takes part in nothing any more
  };

  Kind kind = Kind::part;
  Lane lane = Lane::all;
  uint16_t generation = 0;
  uint32_t tag = 0;
  uint64_t size = 0;      ///< of the whole message
  uint64_t offset = 0;    ///< of this part in it; parts follow each other
  uint64_t checksum = 0;  ///< of these fields and the bytes that follow (XXH3)

  MessageKey key() const { return {generation, lane, tag}; }
};
static_assert(sizeof(PeerFrame) == 32);

/// Bytes of a message in one frame: they are copied while the next ones are on their way.
inline constexpr size_t kPeerPart = size_t{1} << 20;

/// The bytes behind a frame, in pieces.
using PeerBytes = std::vector<std::span<const std::byte>>;

void seal(PeerFrame& frame, std::span<const std::byte> bytes);
/// Throws Error (run) if the frame is damaged or impossible.
void check_peer_frame(const PeerFrame& frame, const PeerBytes& bytes);

}  // namespace telar
