#include "telar/comm/peers/peer_frame.h"

#include "telar/core/error.h"
#include "telar/io/checksum.h"

namespace telar {

namespace {

uint64_t checksum_of(PeerFrame frame, const PeerBytes& bytes) {
  frame.checksum = 0;
  Checksum checksum;
  checksum.add(std::as_bytes(std::span(&frame, 1)));
  for (const std::span<const std::byte> piece : bytes) checksum.add(piece);
  return checksum.value();
}

}  // namespace

void seal(PeerFrame& frame, std::span<const std::byte> bytes) {
  frame.checksum = checksum_of(frame, {bytes});
}

void check_peer_frame(const PeerFrame& frame, const PeerBytes& bytes) {
  size_t count = 0;
  for (const std::span<const std::byte> piece : bytes) count += piece.size();
  if (frame.checksum != checksum_of(frame, bytes)) throw run_error("a message that was damaged on its way");
  const bool possible = frame.kind <= PeerFrame::Kind::left && static_cast<int>(frame.lane) < kLanes &&
                        count <= kPeerPart && frame.offset <= frame.size &&
                        count <= frame.size - frame.offset;
  if (!possible) throw run_error("a message that no process of telar sends");
}

}  // namespace telar
