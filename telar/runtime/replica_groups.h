#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "telar/comm/thread_group.h"
#include "telar/runtime/gpu_exchange.h"

namespace telar {

/// The groups in which the replicas of one process compute together: of its threads; where there are several processes, of the replicas of
/// all; and over NCCL where it sums the gradients of GPUs.
class ReplicaGroups {
 public:
  /// Calls work(rank) for each replica on its own thread, and waits for all.
  using OnEach = std::function<void(const std::function<void(int)>& work)>;

  /// `alone`: one replica that has nothing to sum, and no group. `processes`: null where there is one. Every process makes one.
  ReplicaGroups(int replicas, bool alone, Processes* processes);

  ~ReplicaGroups();
  ReplicaGroups(const ReplicaGroups&) = delete;
  ReplicaGroups& operator=(const ReplicaGroups&) = delete;

  /// Lets NCCL sum the gradients of these devices, one for each replica, where it can and the job does not want otherwise; every process
  /// calls it. Throws Error (user) with the reason when the job asks for NCCL in vain, or when one process computes on processors what another
  /// computes on GPUs. Why several GPUs exchange through the host's memory though the job leaves it open; else empty.
  std::string join_gpus(const std::vector<std::unique_ptr<Device>>& devices, GpuExchange wanted,
                        const OnEach& on_each);

  /// The replica's member; null for one alone.
  Group* of(int rank) const;
  bool sum_by_nccl() const { return !on_gpus_.empty(); }

  /// Frees the members that wait, with an Error that says that this replica failed.
  void fail(int rank) { team_.fail(rank); }
  /// After that, once all have stopped: ready for new work, but what NCCL was to sum.
  void reset();

 private:
  /// Calls work(member) for all members over NCCL at once: NCCL lets them leave their group together.
  template <typename Work>
  void on_gpus_at_once(const Work& work);

  Processes* processes_;
  ThreadTeam team_;
  std::vector<std::unique_ptr<Group>> joined_;   ///< the replicas as members of those of all processes
  std::vector<Group*> in_host_memory_;           ///< of each replica; null for one alone
  std::vector<std::unique_ptr<Group>> on_gpus_;  ///< the same over NCCL; none where it does not sum
};

}  // namespace telar
