#pragma once

#include <memory>
#include <span>
#include <vector>

#include "telar/device/device.h"

namespace telar {

/// The metrics of a step, summed in the device's memory, followed by a flag: whether the state is non-finite
/// (UpdateBindings).
class StepMetrics {
 public:
  /// `device` must outlive this object.
  StepMetrics(const Device& device, size_t count);

  size_t count() const { return values_.size(); }
  float* on_device() const { return reinterpret_cast<float*>(memory_->data()); }
  float* non_finite() const { return on_device() + count(); }

  /// Clears the metrics. Call at the start of a step.
  void clear();
  /// Clears the flag, too.
  void clear_all();
  /// Starts a copy to the host, after the work queued on the device. When the copy is done, call arrived().
  std::unique_ptr<PendingCopy> start_copy();
  void arrived() { here_ = true; }
  /// The metrics in host memory. Waits for them unless they have arrived since clear().
  std::span<float> values();
  /// Starts a copy of the metrics and the flag to `host`.
  std::unique_ptr<PendingCopy> start_copy_of_all(std::span<float> host) const;

 private:
  const Device& device_;
  std::unique_ptr<Memory> memory_;
  std::vector<float> values_;
  std::unique_ptr<PinnedHost> pinned_;
  bool here_ = false;
};

}  // namespace telar
