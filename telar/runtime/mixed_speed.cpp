#include "telar/runtime/mixed_speed.h"

#include <algorithm>
#include <numeric>

#include "telar/core/median.h"

namespace telar {

MixedSpeedMeter::MixedSpeedMeter(std::vector<bool> on_gpu) : on_gpu_(std::move(on_gpu)) {
  const auto gpus = std::count(on_gpu_.begin(), on_gpu_.end(), true);
  mixed_ = gpus > 0 && gpus < static_cast<std::ptrdiff_t>(on_gpu_.size());
}

void MixedSpeedMeter::record(const std::vector<int64_t>& samples, const std::vector<double>& seconds,
                             double step) {
  constexpr int64_t kWarmUp = 3;
  constexpr size_t kKept = 4096;
  if (!mixed_ || ++steps_ <= kWarmUp || together_.size() == kKept) return;
  double speed = 0;
  for (size_t i = 0; i < on_gpu_.size(); ++i)
    if (on_gpu_[i] && seconds[i] > 0) speed += static_cast<double>(samples[i]) / seconds[i];
  if (speed == 0) return;
  const auto batch = static_cast<double>(std::accumulate(samples.begin(), samples.end(), int64_t{0}));
  together_.push_back(step);
  alone_.push_back(batch / speed);
}

std::optional<MixedSpeed> MixedSpeedMeter::speed() const {
  if (together_.empty()) return std::nullopt;
  return MixedSpeed{median_of(together_), median_of(alone_)};
}

}  // namespace telar
