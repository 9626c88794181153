#include "telar/device/cuda/nccl_group.h"

#include "telar/device/cuda/check.h"

namespace telar::cuda {

NcclGroup::NcclGroup(std::shared_ptr<Gpu> gpu, Group& host, const Nccl::Id& id)
    : gpu_(std::move(gpu)), host_(host) {
  gpu_->use();
  communicator_ = nccl_.join(id, host_.rank(), host_.size());
  if (const cudaError_t status = cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
      status != cudaSuccess) {
    nccl_.leave(communicator_);
    check(status, "making a stream");
  }
}

NcclGroup::~NcclGroup() {
  // Nothing can be done about what fails here.
  gpu_->use_at_last();
  cudaStreamSynchronize(stream_);
  nccl_.leave(communicator_);
  cudaStreamDestroy(stream_);
}

std::span<std::byte> NcclGroup::allocate(size_t bytes) {
  gpu_->use();
  memory_ = DeviceMemory(*gpu_, bytes);
  return {memory_.data(), bytes};
}

void NcclGroup::start_reduce_scatter(std::span<float> bucket) {
  Event computed;
  computed.record(gpu_->stream());
  computed.hold(stream_);
  nccl_.all_reduce(bucket.data(), bucket.size(), communicator_, stream_);
  sums_.emplace_back().record(stream_);
}

size_t NcclGroup::poll() {
  size_t complete = 0;
  while (complete < sums_.size() && sums_[complete].reached()) ++complete;
  return complete;
}

void NcclGroup::finish() {
  if (!sums_.empty()) sums_.back().hold(gpu_->stream());
  sums_.clear();
}

}  // namespace telar::cuda
