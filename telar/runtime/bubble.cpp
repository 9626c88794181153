#include "telar/runtime/bubble.h"

namespace telar {

void BubbleMeter::record(std::chrono::duration<double> step, double busy_seconds) {
  constexpr int64_t kWarmUp = 3;
  if (++steps_ <= kWarmUp) return;
  available_ += step.count() * static_cast<double>(stages_);
  busy_ += busy_seconds;
}

std::optional<Bubble> BubbleMeter::bubble() const {
  if (available_ == 0) return std::nullopt;
  const auto stages = static_cast<double>(stages_);
  return Bubble{1 - busy_ / available_, (stages - 1) / (static_cast<double>(micro_batches_) + stages - 1)};
}

}  // namespace telar
