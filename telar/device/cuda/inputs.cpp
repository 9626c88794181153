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
  make(slots_[0]);
}

void Inputs::make(Slot& slot) const {
  gpu_.wait();  // CUDA may wait in what follows, where nobody looks
  slot.host = PinnedMemory(gpu_, whole_);
  slot.device = DeviceMemory(gpu_, whole_, "a batch");
  gpu_.wait();  // it was zeroed on another stream than the one that fills it
}

void Inputs::set(size_t input, const void* memory) {
  const bool first = std::none_of(set_.begin(), set_.end(), [](bool set) { return set; });
  if (first && sent_once_) current_ = (current_ + 1) % kSlots;
  Slot& slot = slots_[current_];
  if (slot.host.data() == nullptr) make(slot);
  if (first) gpu_.wait(slot.sent);  // the last copy from it
  std::memcpy(slot.host.data() + offsets_[input], memory, bytes_[input]);
  set_[input] = true;
}

size_t Inputs::send() {
  if (std::none_of(set_.begin(), set_.end(), [](bool set) { return set; })) return current_;
  Slot& slot = slots_[current_];
  const Slot& before = slots_[(current_ + 1) % kSlots];
  for (size_t i = 0; sent_once_ && i < set_.size(); ++i)
    if (!set_[i]) std::memcpy(slot.host.data() + offsets_[i], before.host.data() + offsets_[i], bytes_[i]);
  slot.free.hold(gpu_.copies());
  check(cudaMemcpyAsync(slot.device.data(), slot.host.data(), whole_, cudaMemcpyHostToDevice, gpu_.copies()),
        "copying the inputs");
  slot.sent.record(gpu_.copies());
  slot.sent.hold(gpu_.stream());
  std::fill(set_.begin(), set_.end(), false);
  sent_once_ = true;
  return current_;
}

void Inputs::read(size_t slot) { slots_[slot].free.record(gpu_.stream()); }

std::byte* Inputs::memory(size_t slot, size_t input) const {
  std::byte* block = slots_[slot].device.data();
  return block == nullptr ? nullptr : block + offsets_[input];
}

}  // namespace telar::cuda
