#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "telar/comm/store/store_frame.h"
#include "telar/comm/store/store_works.h"

namespace telar {

/// Floats of a block that are always pushed together and so have had the same updates.
struct StoreSegment {
  size_t begin = 0;
  size_t end = 0;
  int64_t version = 0;  ///< updates applied
  int64_t round = 0;    ///< last closed round, whether it was applied or not
};

/// What a copy of a block has beside its floats.
struct StoreBlockState {
  std::vector<StoreSegment> segments;
  StoreWorks works;
};

/// The number of segments (8 bytes), the segments, and the runs of pieces of work (WorkRun), each of 8-byte
/// numbers, little-endian. Throws Error (run) if it does not fit into a frame.
std::vector<std::byte> encode_block_state(const StoreBlockState& state);
/// Throws Error (user) if it was not encoded so. Does not check whether the segments are those of the block.
StoreBlockState decode_block_state(const FramePayload& payload);

}  // namespace telar
