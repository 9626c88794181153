#include "telar/data/batch_source.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace telar {

namespace {

/// More room if needed. A growing batch keeps its memory.
void make_room(Buffer& buffer, int64_t items, size_t item_bytes) {
  const auto bytes = static_cast<size_t>(product_of({items, static_cast<int64_t>(item_bytes)}));
  if (buffer.size() < bytes) buffer = Buffer(bytes);
}

}  // namespace

size_t BatchTensor::sample_bytes() const {
  return static_cast<size_t>(product_of({shape.elements(), static_cast<int64_t>(size_of(dtype))}));
}

Batch::Batch(std::vector<BatchTensor> tensors) : tensors_(std::move(tensors)), memory_(tensors_.size()) {}

void Batch::resize(int64_t size) {
  for (size_t i = 0; i < tensors_.size(); ++i) make_room(memory_[i], size, tensors_[i].sample_bytes());
  make_room(ids_, size, sizeof(int64_t));
  size_ = size;
}

const std::byte* Batch::find(std::string_view name) const {
  const auto found = std::ranges::find(tensors_, name, &BatchTensor::name);
  return found == tensors_.end() ? nullptr : memory_[static_cast<size_t>(found - tensors_.begin())].data();
}

LatencyCounts latency_since(std::span<const int64_t> arrived) {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  const double now = std::chrono::duration<double>(since_1970).count();
  LatencyCounts counts;
  for (const int64_t milliseconds : arrived) counts.add(now - 1e-3 * static_cast<double>(milliseconds));
  return counts;
}

}  // namespace telar
