#pragma once

#include <cstddef>
#include <vector>

#include "telar/comm/store/store_chain.h"

namespace telar {

/// Where the copies of a shard are to be (ChainKeeper::place).
struct ShardPlacement {
  size_t shard = 0;
  std::vector<StoreServerId> servers;
};

/// What is to be done next, so that each shard has `copies` of them (or one on each server, if there are
/// fewer), and no server has two copies, or is the head of two shards, more than another. `servers`: those
/// that may have copies, without those that are lost or leave.
///
/// Shards without enough copies come first, all of them. A copy goes to the server with the fewest; of
/// several such servers, to the one that comes next after the head. Then, while no chain is being filled, one
/// shard at a time moves: a copy from the server with the most to the one with the fewest, without changing
/// the head if possible; and when copies are even, one head. Called again after each change, it comes to an
/// end.
std::vector<ShardPlacement> next_placements(const std::vector<StoreChain>& chains,
                                            const std::vector<StoreServerId>& servers, size_t copies);

}  // namespace telar
