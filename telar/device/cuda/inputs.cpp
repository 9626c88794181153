#include "telar/device/cuda/inputs.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "telar/device/cuda/check.h"
#include "telar/device/cuda/layouts.h"

namespace telar::cuda {

namespace {

/// Copies large batches on several threads: one thread fills pinned memory more slowly than a GPU fetches it
/// (154 MB: 30 ms and 3 ms beside an H100).
void copy_batch(std::byte* to, const std::byte* from, size_t bytes) {
  constexpr size_t kPart = size_t{4} << 20;  // starting a thread takes as long as copying a few 100 KB
  constexpr size_t kMostThreads = 8;
  const size_t parts =
      std::min({bytes / kPart + 1, kMostThreads, size_t{std::max(1U, std::thread::hardware_concurrency())}});
  const auto copy = [=](size_t part) {
    const size_t begin = bytes * part / parts;
    std::memcpy(to + begin, from + begin, bytes * (part + 1) / parts - begin);
  };
  std::vector<std::jthread> threads;
  for (size_t part = 1; part < parts; ++part) threads.emplace_back(copy, part);
  copy(0);
}

}  // namespace

Inputs::Inputs(Gpu& gpu, const std::vector<size_t>& bytes) : gpu_(gpu), bytes_(bytes), set_(bytes.size()) {
  for (const size_t size : bytes_) {
    offsets_.push_back(whole_);
    whole_ += align_up_memory(size);
  }
  make(buffers_[0]);
}

void Inputs::make(BatchBuffer& buffer) const {
  gpu_.wait();  // CUDA may block in the following calls, where the watch is not called
  buffer.host = PinnedMemory(gpu_, whole_);
  buffer.device = DeviceMemory(gpu_, whole_, "a batch");
  gpu_.wait();  // another stream zeroes the memory than the one that fills it
}

void Inputs::set(size_t input, const void* memory) {
  const bool first = std::none_of(set_.begin(), set_.end(), [](bool set) { return set; });
  if (first && sent_once_) current_ = (current_ + 1) % kBuffers;
  BatchBuffer& buffer = buffers_[current_];
  if (buffer.host.data() == nullptr) make(buffer);
  if (first) gpu_.wait(buffer.sent);  // until the last copy from this buffer is done
  copy_batch(buffer.host.data() + offsets_[input], static_cast<const std::byte*>(memory), bytes_[input]);
  set_[input] = true;
}

size_t Inputs::send() {
  if (std::none_of(set_.begin(), set_.end(), [](bool set) { return set; })) return current_;
  BatchBuffer& buffer = buffers_[current_];
  const BatchBuffer& before = buffers_[(current_ + 1) % kBuffers];
  for (size_t i = 0; sent_once_ && i < set_.size(); ++i)
    if (!set_[i]) std::memcpy(buffer.host.data() + offsets_[i], before.host.data() + offsets_[i], bytes_[i]);
  buffer.free.hold(gpu_.copies());
  check(cudaMemcpyAsync(buffer.device.data(), buffer.host.data(), whole_, cudaMemcpyHostToDevice,
                        gpu_.copies()),
        "copying the inputs");
  buffer.sent.record(gpu_.copies());
  buffer.sent.hold(gpu_.stream());
  std::fill(set_.begin(), set_.end(), false);
  sent_once_ = true;
  return current_;
}

void Inputs::read(size_t buffer) { buffers_[buffer].free.record(gpu_.stream()); }

std::byte* Inputs::memory(size_t buffer, size_t input) const {
  std::byte* block = buffers_[buffer].device.data();
  return block == nullptr ? nullptr : block + offsets_[input];
}

}  // namespace telar::cuda
