#pragma once

#include <memory>
#include <span>
#include <vector>

#include "telar/device/device.h"

namespace telar {

/// The metrics of a step, summed in the device's memory, and behind them a flag there: whether the state is non-finite (UpdateBindings).
class StepMetrics {
 public:
  /// `device` must outlive it.
  StepMetrics(const Device& device, size_t count);

  size_t count() const { return values_.size(); }
  float* on_device() const { return reinterpret_cast<float*>(memory_->data()); }
  float* non_finite() const { return on_device() + count(); }

  /// At the beginning of a step.
  void clear();
  /// The flag, too.
  void clear_all();
  /// Their way to the host, after what the device was told before. Once it is done arrived() is to be called.
  std::unique_ptr<PendingCopy> start_copy();
  void arrived() { here_ = true; }
  /// In the host's memory: waits for them unless they have arrived since clear().
  std::span<float> values();
  /// The metrics and the flag, on their way to `host`.
  std::unique_ptr<PendingCopy> start_copy_of_all(std::span<float> host) const;

 private:
  const Device& device_;
  std::unique_ptr<Memory> memory_;
  std::vector<float> values_;
  std::unique_ptr<PinnedHost> pinned_;
  bool here_ = false;
};

}  // namespace telar
