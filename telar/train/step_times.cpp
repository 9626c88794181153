#include "telar/train/step_times.h"

#include <algorithm>

namespace telar {

namespace {

template <typename Value>
void forget_first(std::vector<Value>& values, size_t count) {
  values.erase(values.begin(), values.begin() + static_cast<ptrdiff_t>(std::min(count, values.size())));
}

}  // namespace

void StepTimes::add(double seconds, const CommunicationTime& communication, const PhaseTimes* phases) {
  ++steps_;
  seconds_ += seconds;
  if (kept_seconds_.size() == 2 * kKept) {
    forget_first(kept_seconds_, kKept);
    forget_first(communication_, kKept);
    forget_first(phases_, kKept);
  }
  kept_seconds_.push_back(static_cast<float>(seconds));
  communication_.push_back(communication);
  if (phases != nullptr) phases_.push_back(*phases);
}

}  // namespace telar
