#include "telar/runtime/bubble.h"

namespace telar {

void BubbleMeter::record(std::chrono::duration<double> step, double busy_seconds) {
  constexpr int64_t kWarmUp = 3;
  if (++steps_ <= kWarmUp) return;
  available_ += step.count() * static_cast<double>(stages_here_);
  busy_ += busy_seconds;
}

std::optional<Bubble> BubbleMeter::bubble() const {
  if (available_ == 0) return std::nullopt;
  const auto stages = static_cast<double>(size_.stages);
  return Bubble{1 - busy_ / available_,
                (stages - 1) / (static_cast<double>(size_.micro_batches) + stages - 1)};
}

}  // namespace telar
