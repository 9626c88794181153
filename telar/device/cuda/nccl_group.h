#pragma once

#include <deque>
#include <memory>

#include "telar/comm/group.h"
#include "telar/device/cuda/gpu.h"
#include "telar/device/cuda/nccl.h"

namespace telar::cuda {

/// A member whose buckets lie on its GPU and are summed by NCCL, on a stream beside the computation. Every
/// member gets every sum, and updates all of its own copy of the parameters. What is small, and lies in the
/// host's memory, goes through `host`, the same member of a group of the host's.
///
/// A sum to which one member does not come would hold up the GPUs of the others for ever, and whoever waits
/// for them. So whoever waits for this one looks, meanwhile, whether a member has failed (Gpu::watch); then
/// the sums are given up, and the waiting ends with an Error.
class NcclGroup final : public Group {
 public:
  /// Waits for all members. `host` must outlive it. Throws Error.
  NcclGroup(std::shared_ptr<Gpu> gpu, Group& host, const Nccl::Id& id);
  ~NcclGroup() override;

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  bool sums_on_device() const override { return true; }
  std::pair<size_t, size_t> shard(size_t count) const override { return {0, count}; }
  std::span<std::byte> allocate(size_t bytes) override;
  void start_reduce_scatter(std::span<float> bucket) override;
  size_t poll() override;
  /// Makes the GPU's following work wait; the host the first time alone.
  void finish() override;
  void all_reduce(std::span<float> values) override { host_.all_reduce(values); }
  double sum_over_shards(double value) override { return value; }
  void all_gather(std::span<float> rows) override { host_.all_gather(rows); }
  void barrier() override { host_.barrier(); }
  void check() const override;
  void abandon() override;

 private:
  /// As check(), and abandons the group where that throws.
  void watch();

  std::shared_ptr<Gpu> gpu_;
  Group& host_;
  Nccl nccl_;
  Nccl::Communicator communicator_ = nullptr;  ///< null once the group was abandoned
  cudaStream_t stream_ = nullptr;
  DeviceMemory memory_;
  std::deque<Event> sums_;  ///< since the last finish()
  bool finished_once_ = false;
};

}  // namespace telar::cuda
