#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "telar/comm/thread_group.h"
#include "telar/graph/program.h"
#include "telar/runtime/gpu_exchange.h"

namespace telar {

/// The groups of the replicas of one process: of its threads; with several processes, of the replicas of all
/// processes; over NCCL if it sums the gradients of GPUs; and the groups of some replicas that a program
/// names.
class ReplicaGroups {
 public:
  /// Calls work(rank) for each replica on the replica's own thread and waits for all.
  using OnEach = std::function<void(const std::function<void(int)>& work)>;

  /// For the workers of a program. A single one with nothing to sum has no group. `processes`: null if there
  /// is only one process. Every process makes one.
  ReplicaGroups(const Program& program, int64_t process, Processes* processes);

  ~ReplicaGroups();
  ReplicaGroups(const ReplicaGroups&) = delete;
  ReplicaGroups& operator=(const ReplicaGroups&) = delete;

  /// Lets NCCL sum the gradients of these devices, one for each replica, if possible and not excluded by the
  /// job. Every process calls it. Returns why several GPUs exchange through host memory although the job
  /// leaves the choice open; otherwise empty. Throws Error (user) with the reason if the job requires NCCL
  /// and it cannot be used, or if the processes have different kinds of devices.
  std::string join_gpus(const std::vector<std::unique_ptr<Device>>& devices, GpuExchange wanted,
                        const OnEach& on_each);

  /// The replica's member of the group of all; null for a single replica.
  Group* of(int rank) const;
  /// The replica's members of the groups that the program names; null where it is the only member.
  const std::map<std::string, Group*>& named(int rank) const { return named_[static_cast<size_t>(rank)]; }
  bool sum_by_nccl() const { return !on_gpus_.empty(); }

  /// Ends the members' waits with an Error that reports that this replica failed.
  void fail(int rank);
  /// Call after fail(), when all replicas have stopped. Makes the groups usable again, except the sums over
  /// NCCL.
  void reset();

 private:
  /// Calls work(member) for all members over NCCL at the same time: NCCL requires that they leave their group
  /// together.
  template <typename Work>
  void on_gpus_at_once(const Work& work);

  /// Makes the groups of these workers, numbered among all; some of them are replicas of this process.
  void make_named(const std::string& name, const std::vector<int>& members, int64_t first, int channel);

  Processes* processes_;
  ThreadTeam team_;
  std::vector<std::unique_ptr<ThreadTeam>> teams_;  ///< of the groups that the program names
  std::vector<std::map<std::string, Group*>> named_;
  std::vector<std::unique_ptr<Group>> joined_;   ///< the replicas as members of the group of all processes
  std::vector<Group*> in_host_memory_;           ///< of each replica; null for a single replica
  std::vector<std::unique_ptr<Group>> on_gpus_;  ///< the same over NCCL; empty if NCCL does not sum
};

}  // namespace telar
