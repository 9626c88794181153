#include "telar/comm/peers/peer_frame.h"

#include <xxhash.h>

#include "telar/core/error.h"

namespace telar {

namespace {

uint64_t checksum_of(PeerFrame frame, std::span<const std::byte> bytes) {
  frame.checksum = XXH3_64bits(bytes.data(), bytes.size());
  return XXH3_64bits(&frame, sizeof frame);
}

}  // namespace

void seal(PeerFrame& frame, std::span<const std::byte> bytes) { frame.checksum = checksum_of(frame, bytes); }

void check_peer_frame(const PeerFrame& frame, std::span<const std::byte> bytes) {
  if (frame.checksum != checksum_of(frame, bytes)) throw run_error("a message that was damaged on its way");
  const bool possible = frame.kind <= PeerFrame::Kind::goodbye && static_cast<int>(frame.lane) < kLanes &&
                        frame.zero == 0 && bytes.size() <= kPeerPart && frame.offset <= frame.size &&
                        bytes.size() <= frame.size - frame.offset;
  if (!possible) throw run_error("a message that no process of telar sends");
}

}  // namespace telar
