#include "telar/device/cuda/inputs.h"

#include <algorithm>
#include <cstring>

#include "telar/device/cuda/check.h"
#include "telar/device/cuda/layouts.h"

namespace telar::cuda {

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
  std::memcpy(buffer.host.data() + offsets_[input], memory, bytes_[input]);
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
