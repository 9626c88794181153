#pragma once

#include <memory>
#include <vector>

#include "telar/comm/group.h"
#include "telar/comm/linked/shared_windows.h"
#include "telar/comm/linked/sums.h"

namespace telar {

/// A replica as a member of the group of all replicas of several processes, in two levels. First the replicas
/// of this process sum a bucket, each its own shard (shared memory, no copies). Each shard is then summed, in
/// place, with those of the same replica of the other processes. After the exchange the replicas of every
/// process together hold the whole sum, and every process updates all of its parameters to the same bits.
/// Or each process gets the sum only of its part of a shard, updates that, and the parameters are exchanged.
/// Replica i talks only to the replicas i of other processes, from its own thread. Sums advance whenever
/// poll() is called, between the operations of the backward pass.
class LinkedMember final : public Group {
 public:
  /// Where the processes of the group meet.
  enum class Meet : uint8_t {
    messages,
    windows,  ///< all are on one host: values pass in shared memory, buckets by messages
    memory    ///< and they sum in each other's memory, in which allocate() places the buckets
  };

  /// `processes`: those of the group. `channel`: a number that other groups do not have.
  LinkedMember(Group& local, ProcessLinks& links, const Watch& watch, const std::vector<int>& processes,
               Meet meet, int channel);

  int rank() const override { return process_ * local_.size() + local_.rank(); }
  int size() const override { return processes_ * local_.size(); }
  std::pair<size_t, size_t> shard(size_t count) const override { return local_.shard(count); }
  std::pair<size_t, size_t> part(size_t count) const override;
  std::span<std::byte> allocate(size_t bytes) override;
  void start_reduce_scatter(std::span<float> bucket) override { start(bucket, SumTo::all); }
  void start_reduce_to_parts(std::span<float> bucket) override { start(bucket, SumTo::parts); }
  size_t poll() override;
  void finish() override;
  void all_reduce(std::span<float> values) override;
  double sum_over_shards(double value) override { return local_.sum_over_shards(value); }
  void all_gather(std::span<float> rows) override;
  void barrier() override { local_.barrier(); }
  void share_shards(std::span<float> bucket) override { local_.share_shards(bucket); }
  void share_parts(std::span<const std::span<float>> ranges) override;
  Windows* windows(size_t bytes) override;
  void exchange(Outgoing outgoing, Incoming incoming) override;
  void check() const override {
    local_.check();
    values_.watch.check();
  }

 private:
  /// A shard that is summed over processes.
  struct Shard {
    std::span<float> values;
    SumTo to;
  };

  void start(std::span<float> bucket, SumTo to);
  /// Fills in the rows of the other processes.
  void gather(std::span<std::byte> rows);
  /// Copies the parts of other processes of one shard of parameters.
  void share_by_messages(std::span<float> shard);
  void share_in_windows(Windows& windows, std::span<float> shard) const;
  /// Windows of the processes that have this replica; null if they do not see each other's memory.
  SharedWindows* grown(std::unique_ptr<SharedWindows>& windows, size_t bytes);
  /// Hands the first `summed` shards to the sums over processes. Returns how many of these are complete.
  size_t advance(size_t summed);
  int member_tag(int from, int to) const { return (channel_ * local_.size() + from) * local_.size() + to; }

  Group& local_;
  int channel_;
  Meet meet_;
  // When a bucket is ready depends on the other replicas of the process, so a sum may start before a small
  // exchange in one process and after it in another: they have lanes of their own.
  Circle buckets_;
  Circle values_;
  int process_;    ///< in the group
  int processes_;  ///< of the group
  std::unique_ptr<SharedRegions> regions_;
  std::unique_ptr<Sums> sums_;
  std::unique_ptr<SharedWindows> windows_;
  std::unique_ptr<SharedWindows> rows_;  ///< for gather()
  std::vector<Shard> shards_;            ///< of the buckets started since the last finish()
  size_t given_ = 0;                     ///< how many of them were handed to the sums
};

}  // namespace telar
