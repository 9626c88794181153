#include "telar/runtime/replica_groups.h"

#include <thread>

#include "telar/core/error.h"
#include "telar/device/cuda.h"

namespace telar {

ReplicaGroups::ReplicaGroups(int replicas, bool alone, Processes* processes)
    : processes_(processes), team_(replicas) {
  for (int rank = 0; rank < replicas; ++rank) {
    Group* group = alone ? nullptr : &team_.member(rank);
    if (processes_ != nullptr && group != nullptr) {
      joined_.push_back(processes_->join(*group));
      group = joined_.back().get();
    }
    in_host_memory_.push_back(group);
  }
}

template <typename Work>
void ReplicaGroups::on_gpus_at_once(const Work& work) {
  std::vector<std::jthread> threads;
  for (std::unique_ptr<Group>& member : on_gpus_) threads.emplace_back([&] { work(member); });
}

ReplicaGroups::~ReplicaGroups() {
  on_gpus_at_once([](std::unique_ptr<Group>& member) { member.reset(); });
}

void ReplicaGroups::reset() {
  on_gpus_at_once([](const std::unique_ptr<Group>& member) {
    if (member != nullptr) member->abandon();  // null: the failure was that of joining
  });
  team_.reset();
}

void ReplicaGroups::join_gpus(const std::vector<std::unique_ptr<Device>>& devices, GpuExchange wanted,
                              const OnEach& on_each) {
  if (in_host_memory_.front() == nullptr || wanted == GpuExchange::host) return;
  std::string reason = why_not_nccl(devices, processes_);
  std::string name;
  if (reason.empty() && (processes_ == nullptr || processes_->rank() == 0)) {
    try {
      name = new_gpu_group();
    } catch (const Error& error) {
      reason = error.what();
    }
  }
  if (processes_ != nullptr) reason = processes_->first_text(reason);
  if (!reason.empty()) {
    if (wanted == GpuExchange::nccl)
      throw user_error(
          "strategy.gpu_exchange is nccl, and NCCL cannot sum these gradients: {}; host sums them through "
          "the host's memory",
          reason);
    return;
  }
  if (processes_ != nullptr) processes_->broadcast(name);
  on_gpus_.resize(devices.size());
  on_each([&](int rank) {
    const auto r = static_cast<size_t>(rank);
    on_gpus_[r] = join_gpu_group(*devices[r], *in_host_memory_[r], name);
  });
}

Group* ReplicaGroups::of(int rank) const {
  const auto r = static_cast<size_t>(rank);
  return on_gpus_.empty() ? in_host_memory_[r] : on_gpus_[r].get();
}

}  // namespace telar
