#include "telar/device/cuda/nccl_group.h"

#include <array>
#include <utility>

#include "telar/core/error.h"
#include "telar/device/cuda/check.h"

namespace telar::cuda {

namespace {

/// Sums have priority over other work that waits for a multiprocessor, because other members wait for them.
cudaStream_t make_urgent_stream() {
  int least = 0;
  int greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "querying stream priorities");
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest), "creating a stream");
  return stream;
}

}  // namespace

NcclGroup::NcclGroup(std::shared_ptr<Gpu> gpu, Group& host, const Nccl::Id& id)
    : gpu_(std::move(gpu)), host_(host) {
  gpu_->use();
  stream_ = make_urgent_stream();
  try {
    gpu_->wait();
    // Nothing can interrupt NCCL while it waits for a member that does not join. So each member first reports
    // that its GPU works and that it is about to join.
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
    // The error was reported, or nobody waits for the work that failed. leave() requires that no member has
    // failed.
    abandon();
  }
  gpu_->watch(nullptr);
  if (communicator_ != nullptr) nccl_.leave(communicator_);
  cudaStreamDestroy(stream_);
}

void NcclGroup::check() const {
  if (communicator_ == nullptr)
    throw run_error("{} no longer sums with other GPUs: a member of their group has failed", gpu_->name());
  host_.check();
  nccl_.check(communicator_);
}

void NcclGroup::watch() {
  if (communicator_ == nullptr) return;  // nothing blocks the GPU any more
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
  // Work that waited for the sums now runs to its end. If it fails, another call has reported or will report
  // it.
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
  // CUDA loads kernels that are enqueued after the first sums, and may wait for the whole GPU while it does.
  // So complete the sums first.
  if (!std::exchange(finished_once_, true)) gpu_->wait(stream_);
}

}  // namespace telar::cuda
