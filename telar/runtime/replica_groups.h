#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "telar/comm/thread_group.h"
#include "telar/runtime/gpu_exchange.h"

namespace telar {

/// The groups of the replicas of one process: of its threads; with several processes, of the replicas of all
/// processes; and over NCCL if it sums the gradients of GPUs.
class ReplicaGroups {
 public:
  /// Calls work(rank) for each replica on the replica's own thread and waits for all.
  using OnEach = std::function<void(const std::function<void(int)>& work)>;

  /// `alone`: a single replica with nothing to sum and no group. `processes`: null if there is only one
  /// process. Every process makes one.
  ReplicaGroups(int replicas, bool alone, Processes* processes);

  ~ReplicaGroups();
  ReplicaGroups(const ReplicaGroups&) = delete;
  ReplicaGroups& operator=(const ReplicaGroups&) = delete;

  /// Lets NCCL sum the gradients of these devices, one for each replica, if possible and not excluded by the
  /// job. Every process calls it. Returns why several GPUs exchange through host memory although the job
  /// leaves the choice open; otherwise empty. Throws Error (user) with the reason if the job requires NCCL
  /// and it cannot be used, or if the processes have different kinds of devices.
  std::string join_gpus(const std::vector<std::unique_ptr<Device>>& devices, GpuExchange wanted,
                        const OnEach& on_each);

  /// The replica's member; null for a single replica.
  Group* of(int rank) const;
  bool sum_by_nccl() const { return !on_gpus_.empty(); }

  /// Ends the members' waits with an Error that reports that this replica failed.
  void fail(int rank) { team_.fail(rank); }
  /// Call after fail(), when all replicas have stopped. Makes the groups usable again, except the sums over
  /// NCCL.
  void reset();

 private:
  /// Calls work(member) for all members over NCCL at the same time: NCCL requires that they leave their group
  /// together.
  template <typename Work>
  void on_gpus_at_once(const Work& work);

  Processes* processes_;
  ThreadTeam team_;
  std::vector<std::unique_ptr<Group>> joined_;   ///< the replicas as members of the group of all processes
  std::vector<Group*> in_host_memory_;           ///< of each replica; null for a single replica
  std::vector<std::unique_ptr<Group>> on_gpus_;  ///< the same over NCCL; empty if NCCL does not sum
};

}  // namespace telar
