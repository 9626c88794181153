#pragma once

#include <deque>
#include <memory>

#include "telar/comm/group.h"
#include "telar/device/cuda/gpu.h"
#include "telar/device/cuda/nccl.h"

namespace telar::cuda {

/// A member whose gradient buckets are in GPU memory and are summed by NCCL, on a separate stream during the
/// computation. Every member receives every sum and updates its own copy of all parameters. Small data in
/// host memory is exchanged through `host`, the same member in a host group.
///
/// When a member never joins a sum, the GPUs of the others block forever, and so do the threads that wait for
/// them. Therefore a thread that waits for this GPU also checks that no member has failed (Gpu::watch). If
/// one has, the sums are aborted, and the wait ends with an Error.
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
  /// Makes later work of the GPU wait for the sums; the first call also waits on the host.
  void finish() override;
  void all_reduce(std::span<float> values) override { host_.all_reduce(values); }
  double sum_over_shards(double value) override { return value; }
  void all_gather(std::span<float> rows) override { host_.all_gather(rows); }
  void barrier() override { host_.barrier(); }
  void share_shards(std::span<float> /*bucket*/) override {}  // each member has summed all of it
  void exchange(Outgoing outgoing, Incoming incoming) override { host_.exchange(outgoing, incoming); }
  void check() const override;
  void abandon() override;

 private:
  /// Calls check(); abandons the group when it throws.
  void watch();

  std::shared_ptr<Gpu> gpu_;
  Group& host_;
  Nccl nccl_;
  Nccl::Communicator communicator_ = nullptr;  ///< null after abandon()
  cudaStream_t stream_ = nullptr;
  DeviceMemory memory_;
  std::deque<Event> sums_;  ///< started since the last finish()
  bool finished_once_ = false;
};

}  // namespace telar::cuda
