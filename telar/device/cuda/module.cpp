// The functions that the shared module telar-cuda exports.
#include <fmt/format.h>

#include <algorithm>

#include "telar/core/error.h"
#include "telar/device/cuda.h"
#include "telar/device/cuda/check.h"
#include "telar/device/cuda/cudnn_graph.h"
#include "telar/device/cuda/executable.h"
#include "telar/device/cuda/loops/accumulate.h"
#include "telar/device/cuda/nccl_group.h"
#include "telar/device/cuda/updater.h"

namespace telar::cuda {

namespace {

/// An arena, or the memory for a graph's values.
class GpuMemory final : public Memory {
 public:
  GpuMemory(std::shared_ptr<Gpu> gpu, size_t bytes, const std::string& what)
      : Memory(nullptr, bytes), gpu_(std::move(gpu)), memory_(*gpu_, bytes, what) {
    data_ = memory_.data();
  }
  ~GpuMemory() override { gpu_->wait_at_last(); }

 private:
  std::shared_ptr<Gpu> gpu_;
  DeviceMemory memory_;
};

/// Whether CUDA can copy to this memory asynchronously.
bool is_pinned(const void* host) {
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, host) == cudaSuccess)
    return attributes.type == cudaMemoryTypeHost;
  cudaGetLastError();
  return false;
}

class PendingGpuCopy final : public PendingCopy {
 public:
  PendingGpuCopy(const Gpu& gpu, const std::byte* memory, std::span<std::byte> host, bool beside)
      : gpu_(gpu) {
    if (!is_pinned(host.data())) gpu.wait();  // CUDA would block in the copy, where the watch is not called
    const cudaStream_t stream = beside ? gpu.returns() : gpu.stream();
    if (beside) {
      Event computed;
      computed.record(gpu.stream());
      computed.hold(stream);
    }
    check(cudaMemcpyAsync(host.data(), memory, host.size(), cudaMemcpyDeviceToHost, stream),
          "copying to the host");
    copied_.record(stream);
  }
  /// The copy's target must outlive this object.
  ~PendingGpuCopy() override {
    try {
      wait();
    } catch (const Error&) {  // another call has reported or will report it
    }
  }
  bool done() const override { return copied_.reached(); }
  void wait() const override { gpu_.wait(copied_); }

 private:
  const Gpu& gpu_;
  Event copied_;
};

class PinnedForGpu final : public PinnedHost {
 public:
  /// `host` is already registered.
  explicit PinnedForGpu(std::span<std::byte> host) : host_(host) {}
  ~PinnedForGpu() override { cudaHostUnregister(host_.data()); }

 private:
  std::span<std::byte> host_;
};

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int number) : gpu_(std::make_shared<Gpu>(number)) {}

  const std::shared_ptr<Gpu>& gpu() const { return gpu_; }
  std::string name() const override { return gpu_->name(); }
  void enter() const override { gpu_->use(); }
  void synchronise() const override {
    gpu_->use();
    gpu_->wait();
  }

  std::unique_ptr<Executable> compile(const Graph& graph, const CompileOptions& options) const override {
    return std::make_unique<CudaExecutable>(graph, gpu_, options);
  }
  std::unique_ptr<Updater> compile_update(const Graph& update, const ArenaLayout& arena) const override {
    return std::make_unique<CudaUpdater>(update, arena, gpu_);
  }

  std::optional<size_t> free_memory() const override {
    gpu_->use();
    size_t free = 0;
    size_t all = 0;
    check(cudaMemGetInfo(&free, &all), "querying free memory");
    return free;
  }
  std::string memory_name() const override { return gpu_->name(); }
  std::string identity() const override { return gpu_->identity(); }
  TensorLayout plain_layout(const Shape& shape) const override {
    return {shape, bytes_of({DType::f32, shape}), name_of(Layout::plain), nullptr};
  }
  void copy_out(const std::byte* memory, std::span<std::byte> host) const override {
    gpu_->use();
    gpu_->copy_out(memory, host);
  }
  void copy_in(std::span<const std::byte> host, std::byte* memory) const override {
    gpu_->use();
    gpu_->copy_in(host, memory);
  }
  std::unique_ptr<PendingCopy> start_copy_out(const std::byte* memory, std::span<std::byte> host,
                                              bool beside) const override {
    gpu_->use();
    return std::make_unique<PendingGpuCopy>(*gpu_, memory, host, beside);
  }
  std::unique_ptr<PinnedHost> pin(std::span<std::byte> host) const override {
    gpu_->use();
    if (host.empty()) return nullptr;
    if (cudaHostRegister(host.data(), host.size(), cudaHostRegisterDefault) != cudaSuccess) {
      // Another library has pinned the memory already, or the system does not allow so much pinned memory.
      // Copies are correct but may be slower.
      cudaGetLastError();
      return nullptr;
    }
    return std::make_unique<PinnedForGpu>(host);
  }
  void zero(std::byte* memory, size_t bytes) const override {
    gpu_->use();
    check(cudaMemsetAsync(memory, 0, bytes, gpu_->stream()), "zeroing memory");
  }
  void add(std::byte* to, const std::byte* from, size_t count, float scale) const override {
    gpu_->use();
    check(accumulate_scaled(reinterpret_cast<float*>(to), reinterpret_cast<const float*>(from),
                            static_cast<int64_t>(count), scale, true, gpu_->stream()),
          "accumulating gradients");
  }
  void read(const TensorLayout& layout, const std::byte* memory, std::span<float> canonical) const override {
    std::vector<std::byte> lying(layout.bytes);
    copy_out(memory, lying);
    const auto values = canonical_values(lying, {DType::f32, layout.shape}, layout_named(layout.format));
    std::copy(values.begin(), values.end(), canonical.begin());
  }
  void write(const TensorLayout& layout, std::span<const float> canonical, std::byte* memory) const override {
    if (layout_named(layout.format) == Layout::plain) return copy_in(std::as_bytes(canonical), memory);
    std::vector<std::byte> lying(layout.bytes);
    transpose(std::as_bytes(canonical), lying, layout.shape, Layout::channels_last, sizeof(float));
    copy_in(lying, memory);
  }

 private:
  std::unique_ptr<Memory> make_memory(size_t bytes, const std::string& what) const override {
    gpu_->use();
    return std::make_unique<GpuMemory>(gpu_, bytes, what);
  }

  std::shared_ptr<Gpu> gpu_;
};

void require_nccl() { Nccl(); }

std::string new_group() {
  const Nccl::Id id = Nccl().new_id();
  return {id.begin(), id.end()};
}

std::unique_ptr<Group> join_group(const Device& device, Group& host, const std::string& name) {
  Nccl::Id id{};
  std::copy_n(name.begin(), std::min(name.size(), id.size()), id.begin());
  return std::make_unique<NcclGroup>(static_cast<const CudaDevice&>(device).gpu(), host, id);
}

std::unique_ptr<Device> make_device(int number) { return std::make_unique<CudaDevice>(number); }

CudaGpu describe(int number, int gpus) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, number), "querying a GPU");
  CudaGpu gpu{properties.name, properties.totalGlobalMem,
              fmt::format("{}.{}", properties.major, properties.minor), properties.multiProcessorCount,
              static_cast<uint64_t>(properties.l2CacheSize)};
  for (int peer = 0; peer < gpus; ++peer) {
    if (peer == number) continue;
    int reaches = 0;
    int atomics = 0;
    check(cudaDeviceGetP2PAttribute(&reaches, cudaDevP2PAttrAccessSupported, number, peer),
          "querying a link");
    check(cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported, number, peer),
          "querying a link");
    if (reaches != 0) gpu.peers.push_back(peer);
    if (reaches != 0 && atomics != 0) gpu.by_nvlink.push_back(peer);
  }
  return gpu;
}

CudaGpus find_gpus() {
  const Count count = count_gpus();
  CudaGpus found;
  found.not_found = count.none;
  int driver = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0)
    found.driver = fmt::format("{}.{}", driver / 1000, driver % 1000 / 10);
  try {
    for (int number = 0; number < count.gpus; ++number) found.gpus.push_back(describe(number, count.gpus));
  } catch (const Error& error) {
    found = {{}, found.driver, error.what()};
  }
  if (!found.gpus.empty()) found.lost = lost_without_compiler();
  return found;
}

}  // namespace

}  // namespace telar::cuda

extern "C" __attribute__((visibility("default"))) void telar_cuda(telar::cuda::Functions& functions) {
  functions = {telar::cuda::make_device, telar::cuda::find_gpus, telar::cuda::require_nccl,
               telar::cuda::new_group, telar::cuda::join_group};
}
