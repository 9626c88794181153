#include "telar/device/cuda/gpu.h"

#include <fmt/format.h>

#include <thread>
#include <utility>

#include "telar/core/error.h"
#include "telar/device/cuda/check.h"

namespace telar::cuda {

namespace {

constexpr const char* kWhatRan = "work on the GPU";

/// Whether the status of a query reports completion. Throws Error (run) when the queried work has failed.
bool is_done(cudaError_t status) {
  if (status == cudaErrorNotReady) {
    cudaGetLastError();  // CUDA keeps it as an error, and the next kernel would appear to have failed
    return false;
  }
  check(status, kWhatRan);
  return true;
}

}  // namespace

Count count_gpus() {
  int driver = 0;
  // Without a driver this call succeeds, too, and reports version 0.
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
    return {0, "no GPU: NVIDIA's driver (libcuda.so.1) is missing"};
  Count count;
  const cudaError_t status = cudaGetDeviceCount(&count.gpus);
  if (status == cudaSuccess && count.gpus > 0) return count;
  return {0,
          fmt::format("no GPU: {}", status == cudaSuccess ? "CUDA finds none" : cudaGetErrorString(status))};
}

Gpu::Gpu(int number) : number_(number) {
  const Count count = count_gpus();
  if (!count.none.empty()) throw user_error("{}", count.none);
  if (number < 0 || number >= count.gpus) {
    throw user_error("there is no cuda:{}: CUDA finds {} GPU{} on this machine, numbered from cuda:0", number,
                     count.gpus, count.gpus == 1 ? "" : "s");
  }
  use();
  try {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
    check(cudaStreamCreateWithFlags(&copies_, cudaStreamNonBlocking), "creating a stream");
    check(cudaStreamCreateWithFlags(&returns_, cudaStreamNonBlocking), "creating a stream");
    check(cublasLtCreate(&products_), "starting");
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, number), "querying the GPU");
    for (const char byte : properties.uuid.bytes)
      identity_ += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    choices_.emplace(choices_file(properties.name));
  } catch (...) {
    release();
    throw;
  }
}

Gpu::~Gpu() { release(); }

void Gpu::release() {
  // Errors are ignored here. Destroying the stream waits for pending work.
  use_at_last();
  known_convolutions_.clear();
  known_batch_norms_.clear();
  if (convolutions_ != nullptr) cudnnDestroy(convolutions_);
  if (products_ != nullptr) cublasLtDestroy(products_);
  if (returns_ != nullptr) cudaStreamDestroy(returns_);
  if (copies_ != nullptr) cudaStreamDestroy(copies_);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

std::string Gpu::name() const { return fmt::format("cuda:{}", number_); }

void Gpu::use() const { check(cudaSetDevice(number_), "selecting the GPU"); }

void Gpu::use_at_last() const noexcept { cudaSetDevice(number_); }

void Gpu::wait_at_last() const noexcept {
  use_at_last();
  try {
    wait();
  } catch (const std::exception&) {  // another call has reported or will report it
  }
}

template <typename Done>
void Gpu::look_until(const Done& done) const {
  while (watch_ && !done()) {
    watch_();
    std::this_thread::yield();
  }
}

void Gpu::wait(cudaStream_t stream) const {
  look_until([&] { return is_done(cudaStreamQuery(stream)); });
  check(cudaStreamSynchronize(stream), kWhatRan);
}

void Gpu::wait(const Event& event) const {
  look_until([&] { return event.reached(); });
  event.wait();
}

void Gpu::copy_out(const std::byte* memory, std::span<std::byte> host) const {
  if (watch_) wait();  // CUDA blocks in a copy to memory that is not pinned, where the watch is not called
  check(cudaMemcpyAsync(host.data(), memory, host.size(), cudaMemcpyDeviceToHost, stream_),
        "copying to the host");
  wait();
}

void Gpu::copy_in(std::span<const std::byte> host, std::byte* memory) const {
  if (watch_) wait();  // as in copy_out
  check(cudaMemcpyAsync(memory, host.data(), host.size(), cudaMemcpyHostToDevice, stream_),
        "copying to the GPU");
  wait();
}

cudnnHandle_t Gpu::convolutions() {
  if (convolutions_ == nullptr) {
    cudnnHandle_t handle = nullptr;
    check(cudnnCreate(&handle), "starting");
    convolutions_ = handle;
    check(cudnnSetStream(convolutions_, stream_), "setting the stream");
  }
  return convolutions_;
}

DeviceMemory::DeviceMemory(const Gpu& gpu, size_t bytes, const std::string& what) : size_(bytes) {
  if (bytes == 0) return;
  void* memory = nullptr;
  if (const cudaError_t status = cudaMalloc(&memory, bytes); status != cudaSuccess) {
    cudaGetLastError();  // it is reported here, not by the next call
    throw run_error("{} has not enough memory: {:.1f} MiB wanted for {} ({})", gpu.name(),
                    static_cast<double>(bytes) / 1048576.0, what, cudaGetErrorString(status));
  }
  data_ = static_cast<std::byte*>(memory);
  if (const cudaError_t status = cudaMemsetAsync(data_, 0, bytes, gpu.stream()); status != cudaSuccess) {
    cudaFree(data_);
    check(status, "zeroing memory");
  }
}

DeviceMemory::~DeviceMemory() {
  if (data_ != nullptr) cudaFree(data_);  // waits for work that uses it
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

PinnedMemory::PinnedMemory(const Gpu& gpu, size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  void* memory = nullptr;
  if (const cudaError_t status = cudaMallocHost(&memory, bytes); status != cudaSuccess) {
    cudaGetLastError();  // it is reported here, not by the next call
    throw run_error("the host has not enough pinned memory for copies to {}: {:.1f} MiB wanted ({})",
                    gpu.name(), static_cast<double>(bytes) / 1048576.0, cudaGetErrorString(status));
  }
  data_ = static_cast<std::byte*>(memory);
}

PinnedMemory::~PinnedMemory() {
  if (data_ != nullptr) cudaFreeHost(data_);
}

PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

PinnedMemory& PinnedMemory::operator=(PinnedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Event::Event() { check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "creating an event"); }

Event::~Event() { cudaEventDestroy(event_); }

void Event::record(cudaStream_t stream) {
  check(cudaEventRecord(event_, stream), "recording an event");
  recorded_ = true;
}

void Event::hold(cudaStream_t stream) const {
  if (recorded_) check(cudaStreamWaitEvent(stream, event_, 0), "waiting for an event");
}

void Event::wait() const {
  if (recorded_) check(cudaEventSynchronize(event_), kWhatRan);
}

bool Event::reached() const { return !recorded_ || is_done(cudaEventQuery(event_)); }

}  // namespace telar::cuda
