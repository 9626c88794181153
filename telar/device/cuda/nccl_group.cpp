#include "telar/device/cuda/nccl_group.h"

#include <array>
#include <utility>

#include "telar/core/error.h"
#include "telar/device/cuda/check.h"

namespace telar::cuda {

namespace {

/// Sums before what else waits for a multiprocessor: others wait for them.
cudaStream_t make_urgent_stream() {
  int least = 0;
  int greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for priorities");
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest), "making a stream");
  return stream;
}

}  // namespace

NcclGroup::NcclGroup(std::shared_ptr<Gpu> gpu, Group& host, const Nccl::Id& id)
    : gpu_(std::move(gpu)), host_(host) {
  gpu_->use();
  stream_ = make_urgent_stream();
  try {
    gpu_->wait();
    // Nobody can end NCCL's waiting for a member that does not join: so each says first that its GPU works,
    // and is about to.
    std::array<float, 1> here = {1};
    host_.all_reduce(here);
    communicator_ = nccl_.join(id, host_.rank(), host_.size());
  } catch (...) {
    cudaStreamDestroy(stream_);
    throw;
  }
  gpu_->watch([this] { watch(); });
}

NcclGroup::~NcclGroup() {
  gpu_->use_at_last();
  try {
    check();
    gpu_->wait(stream_);
  } catch (const Error&) {
    // It was told, or nobody waits for what failed. Leaving is for members of whom none has.
    abandon();
  }
  gpu_->watch(nullptr);
  if (communicator_ != nullptr) nccl_.leave(communicator_);
  cudaStreamDestroy(stream_);
}

void NcclGroup::check() const {
  if (communicator_ == nullptr)
    throw run_error("{} sums no more with other GPUs: a member of their group has failed", gpu_->name());
  host_.check();
  nccl_.check(communicator_);
}

void NcclGroup::watch() {
  if (communicator_ == nullptr) return;  // nothing holds the GPU up any more
  try {
    check();
  } catch (const Error&) {
    abandon();
    throw;
  }
}

void NcclGroup::abandon() {
  if (communicator_ == nullptr) return;
  gpu_->use_at_last();
  nccl_.abort(std::exchange(communicator_, nullptr));
  // What waited for the sums runs to its end. Where that fails it was told, or will be by the next call.
  for (const cudaStream_t stream : {stream_, gpu_->stream(), gpu_->returns()}) cudaStreamSynchronize(stream);
}

std::span<std::byte> NcclGroup::allocate(size_t bytes) {
  gpu_->use();
  memory_ = DeviceMemory(*gpu_, bytes, "gradients");
  return {memory_.data(), bytes};
}

void NcclGroup::start_reduce_scatter(std::span<float> bucket) {
  check();
  Event computed;
  computed.record(gpu_->stream());
  computed.hold(stream_);
  nccl_.all_reduce(bucket.data(), bucket.size(), communicator_, stream_);
  sums_.emplace_back().record(stream_);
}

size_t NcclGroup::poll() {
  check();
  size_t complete = 0;
  while (complete < sums_.size() && sums_[complete].reached()) ++complete;
  return complete;
}

void NcclGroup::finish() {
  if (!sums_.empty()) sums_.back().hold(gpu_->stream());
  sums_.clear();
  // CUDA loads what the GPU is told after its first sums, and may wait in that for the whole GPU: so they are
  // done.
  if (!std::exchange(finished_once_, true)) gpu_->wait(stream_);
}

}  // namespace telar::cuda
