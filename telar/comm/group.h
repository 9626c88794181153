#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace telar {

/// Memory of the members of a group that all of them can read, for values that pass without messages.
class Windows {
 public:
  virtual ~Windows() = default;
  /// This member's memory. It may be written until the next meet().
  virtual std::span<std::byte> own() = 0;
  /// Waits until all members have called it, so that what they have written can be read.
  virtual void meet() = 0;
  /// What a member had written at the last meet(). It stays there until this member calls meet() again.
  virtual std::span<const std::byte> of(int member) const = 0;
};

/// One member of a group that computes a step together: the replicas of one process, or of several.
/// Every member calls the same operations in the same order. Sums are taken in rank order, never in order of
/// arrival. When a member fails, the waits of the others end with an Error (run) that names it.
class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// The member's shard: the range [begin, end) of `count` floats that it sums and updates. The shards of all
  /// members that share one copy of the parameters cover the whole range.
  virtual std::pair<size_t, size_t> shard(size_t count) const = 0;

  /// The part of `count` floats that this member alone updates, where members keep optimizer state only of
  /// what they update: the shard, or a part of it if processes have shards of the same range. Together, the
  /// parts cover the range.
  virtual std::pair<size_t, size_t> part(size_t count) const { return shard(count); }

  /// True when buckets are in the memory of this member's device. Sums are then queued on the device, no
  /// thread waits for them, and each member sums and updates everything.
  virtual bool sums_on_device() const { return false; }

  /// Returns zeroed memory for buckets, 64-byte aligned. It is valid for the lifetime of the member or until
  /// the next call. Other members may read and write it. Every member requests the same size. Waits.
  virtual std::span<std::byte> allocate(size_t bytes) = 0;

  /// Starts summing `bucket` over the members and returns at once. After `finish`, this member's shard of the
  /// bucket holds the sum, and the rest of the bucket is undefined.
  virtual void start_reduce_scatter(std::span<float> bucket) = 0;
  /// The same, but only this member's part of the bucket holds the sum: processes exchange half as much.
  virtual void start_reduce_to_parts(std::span<float> bucket) { start_reduce_scatter(bucket); }
  /// Advances the started sums without waiting. Returns how many of them are complete since the last
  /// `finish`, in the order in which they were started.
  virtual size_t poll() = 0;
  /// Waits until all started sums are complete.
  virtual void finish() = 0;

  /// Replaces the values by their sums over the members. Waits.
  virtual void all_reduce(std::span<float> values) = 0;
  /// Returns the sum over the members of a value that each has computed from its shard. Waits.
  virtual double sum_over_shards(double value) = 0;
  /// `rows` holds size() rows of equal length. This member has filled its own row; the call fills the others.
  /// Waits.
  virtual void all_gather(std::span<float> rows) = 0;
  /// Waits for all members that share this one's parameters.
  virtual void barrier() = 0;
  /// After finish(): fills the rest of a bucket with the shards that other members have summed. Every member
  /// calls it for the same buckets, which then hold the whole sum. Waits.
  virtual void share_shards(std::span<float> bucket) = 0;

  /// Every member has updated its part of each of these ranges of the parameters: fills in, in this member's
  /// shards, the parts of those that do not share its memory. Waits.
  virtual void share_parts(std::span<const std::span<float>> /*ranges*/) {}

  /// Sends outgoing[r] to member r, and fills incoming[r] with what r sends here, for every other member.
  /// Both have size() items; those of this member are ignored. Members agree about the sizes. Waits until all
  /// have read what is sent to them.
  using Outgoing = std::span<const std::span<const std::byte>>;
  using Incoming = std::span<const std::span<std::byte>>;
  virtual void exchange(Outgoing outgoing, Incoming incoming) = 0;

  /// Windows of at least this size, which is the same for all members; every member calls it. Null if the
  /// members cannot read each other's memory. Valid until the next call. Waits if the windows grow.
  virtual Windows* windows(size_t /*bytes*/) { return nullptr; }

  /// Throws Error (run) that names the failed member, if one has failed. For threads that wait for other work
  /// of a member.
  virtual void check() const = 0;
  /// Call after a member has failed. Ends the sums on this member's device that can no longer complete. After
  /// that the group does not sum on devices any more.
  virtual void abandon() {}
};

/// The sum over all members of one value of each, in rank order. Waits.
double sum_over_members(Group& group, double value);
/// The largest of all members' values. Waits.
uint64_t largest_of_members(Group& group, uint64_t value);

/// The range [begin, end) of part `rank` of `size` of `count` floats. The parts are contiguous, in rank
/// order, and cut at cache lines.
std::pair<size_t, size_t> shard_of(size_t count, int rank, int size);

}  // namespace telar
