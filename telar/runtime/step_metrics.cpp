#include "telar/runtime/step_metrics.h"

#include <utility>

namespace telar {

StepMetrics::StepMetrics(const Device& device, size_t count)
    : device_(device),
      memory_(device.allocate((count + 1) * sizeof(float), "metrics")),
      values_(count),
      pinned_(device.pin(std::as_writable_bytes(std::span(values_)))) {}

void StepMetrics::clear() {
  device_.zero(memory_->data(), count() * sizeof(float));
  here_ = false;
}

void StepMetrics::clear_all() {
  device_.zero(memory_->data(), memory_->size());
  here_ = false;
}

std::unique_ptr<PendingCopy> StepMetrics::start_copy() {
  return device_.start_copy_out(memory_->data(), std::as_writable_bytes(std::span(values_)), false);
}

std::unique_ptr<PendingCopy> StepMetrics::start_copy_of_all(std::span<float> host) const {
  return device_.start_copy_out(memory_->data(), std::as_writable_bytes(host), false);
}

std::span<float> StepMetrics::values() {
  if (!std::exchange(here_, true))
    device_.copy_out(memory_->data(), std::as_writable_bytes(std::span(values_)));
  return values_;
}

}  // namespace telar
