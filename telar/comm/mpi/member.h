#pragma once

#include <mpi.h>

#include <vector>

#include "telar/comm/group.h"
#include "telar/comm/mpi/watch.h"

namespace telar::mpi {

/// A replica as a member of all replicas of all processes, in two levels. A bucket is first summed between the replicas of this
/// process, each its shard (shared memory, nothing copied); the shard is then summed with those of the same replica of the
/// other processes, by MPI_Iallreduce in place. So after an exchange the replicas of every process hold the whole sum, each its
/// shard, and every process updates all of its parameters, to the same bits. Replica i talks to replicas i only, over a
/// communicator of its own, from its own thread; MPI makes progress whenever poll() is called, between the operations of the
/// backward pass.
class Member final : public Group {
 public:
  /// `comm`: of all processes.
  Member(Group& local, MPI_Comm comm, const Watch& watch);
  ~Member() override;
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  int rank() const override { return process_ * local_.size() + local_.rank(); }
  int size() const override { return processes_ * local_.size(); }
  std::pair<size_t, size_t> shard(size_t count) const override { return local_.shard(count); }
  void start_reduce_scatter(std::span<float> bucket) override;
  size_t poll() override;
  void finish() override;
  void all_reduce(std::span<float> values) override;
  double sum_over_shards(double value) override { return local_.sum_over_shards(value); }
  void all_gather(std::span<float> rows) override;
  void barrier() override { local_.barrier(); }

 private:
  /// Starts the sums over processes of the first `summed` shards, and looks which have come.
  void advance(size_t summed);
  void wait(MPI_Request& request) const;

  Group& local_;
  // This replica's own. When a bucket is ready depends on the other replicas of the process, so that a sum may be started before
  // a small collective here and after it there: MPI allows that in different communicators only.
  MPI_Comm buckets_;
  MPI_Comm small_;
  const Watch& watch_;
  int process_ = 0;
  int processes_ = 1;
  std::vector<std::span<float>> shards_;  ///< of the buckets started since the last finish()
  std::vector<MPI_Request> requests_;     ///< of the first of them
  size_t complete_ = 0;
};

}  // namespace telar::mpi
