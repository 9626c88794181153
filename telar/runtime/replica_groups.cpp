#include "telar/runtime/replica_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <thread>

#include "telar/core/error.h"
#include "telar/device/cuda.h"

namespace telar {

namespace {

int gpus_among(const std::vector<std::unique_ptr<Device>>& devices) {
  return static_cast<int>(
      std::ranges::count_if(devices, [](const auto& device) { return !device->in_host_memory(); }));
}

/// Throws Error (user) in every process: with different devices, layouts and ways of exchange would differ,
/// too.
void require_alike(const std::vector<std::unique_ptr<Device>>& devices, GpuExchange wanted,
                   Processes& processes) {
  std::string kinds;
  for (const auto& device : devices)
    kinds += fmt::format("{}{}", kinds.empty() ? "" : " and ", device->in_host_memory() ? "a CPU" : "a GPU");
  const std::vector<std::string> all = processes.gather(kinds);
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw user_error(
        "CPUs and GPUs can train together only within one process (strategy.devices: [cuda:0, cpu]), and all processes must have the same kinds of devices: rank {} has {}, rank 0 {}",
        rank, all[rank], all[0]);
  }
  processes.require_same(std::to_string(static_cast<int>(wanted)), "strategy.gpu_exchange");
}

/// `makes_group`: also creates the name of a group.
std::string why_no_nccl(bool makes_group, std::string& name) {
  try {
    require_nccl();
    if (makes_group) name = new_gpu_group();
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

ReplicaGroups::ReplicaGroups(const Program& program, int64_t process, Processes* processes)
    : processes_(processes),
      team_(static_cast<int>(program.mesh.of_process())),
      named_(static_cast<size_t>(program.mesh.of_process())) {
  const Mesh& mesh = program.mesh;
  const bool alone = mesh.of_process() == 1 && program.buckets.empty() && program.groups.empty() &&
                     program.micro_batches == 0;
  for (int rank = 0; rank < static_cast<int>(mesh.of_process()); ++rank) {
    Group* group = alone ? nullptr : &team_.member(rank);
    if (processes_ != nullptr && group != nullptr) {
      joined_.push_back(processes_->join(*group));
      group = joined_.back().get();
    }
    in_host_memory_.push_back(group);
  }
  const int64_t first = mesh.first_of(process);
  int64_t channel = 1;  // that of the first group along these axes
  for (const auto& [name, along] : program.groups) {
    std::set<int64_t> made;
    for (int64_t w = first; w < first + mesh.of_process(); ++w)
      if (made.insert(mesh.group(w, along)).second)
        make_named(name, mesh.members(w, along), first, static_cast<int>(channel + mesh.group(w, along)));
    channel += mesh.workers() / mesh.size(along);
  }
}

void ReplicaGroups::make_named(const std::string& name, const std::vector<int>& members, int64_t first,
                               int channel) {
  const auto local = static_cast<int>(named_.size());
  std::vector<int> mine;   // ranks in this process
  std::vector<int> ranks;  // of processes
  for (const int member : members) {
    if (member >= first && member < first + local) mine.push_back(member - static_cast<int>(first));
    if (ranks.empty() || ranks.back() != member / local) ranks.push_back(member / local);
  }
  if (members.size() > 1) teams_.push_back(std::make_unique<ThreadTeam>(static_cast<int>(mine.size())));
  for (size_t i = 0; i < mine.size(); ++i) {
    Group* group = members.size() > 1 ? &teams_.back()->member(static_cast<int>(i)) : nullptr;
    if (ranks.size() > 1) {
      if (processes_ == nullptr)
        throw run_error("the program's group '{}' has workers of other processes", name);
      joined_.push_back(processes_->join_some(*group, ranks, channel));
      group = joined_.back().get();
    }
    named_[static_cast<size_t>(mine[i])].emplace(name, group);
  }
}

void ReplicaGroups::fail(int rank) {
  team_.fail(rank);
  for (const auto& team : teams_) team->fail(rank);
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
    if (member != nullptr) member->abandon();  // null: joining failed
  });
  team_.reset();
  for (const auto& team : teams_) team->reset();
}

std::string ReplicaGroups::join_gpus(const std::vector<std::unique_ptr<Device>>& devices, GpuExchange wanted,
                                     const OnEach& on_each) {
  if (in_host_memory_.front() == nullptr) return {};
  if (processes_ != nullptr) require_alike(devices, wanted, *processes_);
  if (wanted == GpuExchange::host) return {};
  std::string reason = why_not_nccl(devices, processes_);
  std::string name;
  if (reason.empty()) reason = why_no_nccl(processes_ == nullptr || processes_->rank() == 0, name);
  if (processes_ != nullptr) reason = processes_->first_text(reason);
  if (!reason.empty()) {
    if (wanted == GpuExchange::nccl)
      throw user_error(
          "strategy.gpu_exchange is nccl, but NCCL cannot sum these gradients: {}; host sums them through the host's memory",
          reason);
    return gpus_among(devices) * (processes_ == nullptr ? 1 : processes_->size()) > 1 ? reason : "";
  }
  if (processes_ != nullptr) processes_->broadcast(name);
  on_gpus_.resize(devices.size());
  on_each([&](int rank) {
    const auto r = static_cast<size_t>(rank);
    on_gpus_[r] = join_gpu_group(*devices[r], *in_host_memory_[r], name);
  });
  return {};
}

Group* ReplicaGroups::of(int rank) const {
  const auto r = static_cast<size_t>(rank);
  return on_gpus_.empty() ? in_host_memory_[r] : on_gpus_[r].get();
}

}  // namespace telar
