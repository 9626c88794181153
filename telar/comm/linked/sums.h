#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "telar/comm/linked/shared_regions.h"

namespace telar {

/// Where the sum of a shard goes.
enum class SumTo : uint8_t {
  all,   ///< every process has all of it
  parts  ///< each process has its part, by shard_of(); the rest is undefined
};

/// Sums a replica's shards with those of the same replica in the other processes, in place and in the
/// background. All processes add the same shards in the same order.
class Sums {
 public:
  virtual ~Sums() = default;
  /// Adds the next shard, which is ready in this process.
  virtual void add(std::span<float> shard, SumTo to) = 0;
  /// Advances the sums without waiting. Returns how many of the shards added since clear() hold the sum, in
  /// order.
  virtual size_t complete() = 0;
  /// Starts over. All added shards must be complete.
  virtual void clear() = 0;
};

/// Sums by messages; the processes may be anywhere. Each process sends every other one that one's part of a
/// shard, adds up its own part in rank order, and sends the sum to the others. Of n bytes each process sends
/// and receives 2 (N − 1)/N · n, as in a ring, in two rounds, and the sums have the same bits as in shared
/// memory, whatever N is. Uses the circle's tag and the next one.
std::unique_ptr<Sums> make_message_sums(const Circle& circle);

/// Sums between processes of one host, in memory that all of them see. Shards are in regions' own().
///
/// Each process sums its part of a shard, [begin, end) by shard_of(). It reads that part in the memory of
/// every process, in rank order, and writes the sum to all of them, or only to its own. Nothing is sent, and
/// nothing is read or written twice: of n bytes, each process reads n and writes n, or its part of n. (MPI
/// copies through its own buffers and took several times as long for a sum of 64 MiB between two processes.)
std::unique_ptr<Sums> make_shared_sums(SharedRegions& regions);

}  // namespace telar
