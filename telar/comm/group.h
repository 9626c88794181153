#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace telar {

/// The members that compute one step together, as one of them sees it: the replicas of one process, or of several. Every
/// member calls the same operations in the same order. Sums are taken in an order that does not depend on who arrives when.
/// A failure of a member ends the waiting of the others with an Error (run) that names it.
class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// [begin, end) of the part of `count` floats that this member sums and updates: its shard. The shards of the members that
  /// share one copy of the parameters make up the whole.
  virtual std::pair<size_t, size_t> shard(size_t count) const = 0;

  /// Whether buckets lie in the memory of this member's device: sums are then part of what the device is told, none waits for them, and
  /// each member sums, and updates, all.
  virtual bool sums_on_device() const { return false; }

  /// Zeroed memory in which buckets lie, 64-byte aligned, as long as the member lives or until the next call: members may look
  /// into each other's. Every member asks for as much. Waits.
  virtual std::span<std::byte> allocate(size_t bytes) = 0;

  /// Starts summing `bucket` over the members; after `finish`, this member's shard of it holds the sum. The rest of the bucket
  /// is then undefined. Returns at once.
  virtual void start_reduce_scatter(std::span<float> bucket) = 0;
  /// Makes progress on what was started, without waiting. How many sums are complete since the last `finish`, in the order in
  /// which they were started.
  virtual size_t poll() = 0;
  /// Waits until everything that was started is complete.
  virtual void finish() = 0;

  /// Replaces the values by their sums over the members. Waits.
  virtual void all_reduce(std::span<float> values) = 0;
  /// The sum of a value that each member has computed from its shard. Waits.
  virtual double sum_over_shards(double value) = 0;
  /// `rows` holds size() rows of equal length, of which this member filled its own; fills the others. Waits.
  virtual void all_gather(std::span<float> rows) = 0;
  /// Waits for every member that shares this one's parameters.
  virtual void barrier() = 0;

  /// Throws Error (run) that names the member that has failed, when one has: for who waits for something else that a member is to do.
  virtual void check() const = 0;
  /// A member has failed. What this member's device was told to sum, and nobody will complete, comes to an end; after that the group sums on
  /// devices no more.
  virtual void abandon() {}
};

/// [begin, end) of part `rank` of `size` of `count` floats: contiguous, in rank order, cut at cache lines.
std::pair<size_t, size_t> shard_of(size_t count, int rank, int size);

}  // namespace telar
