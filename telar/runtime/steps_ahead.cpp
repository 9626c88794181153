#include "telar/runtime/steps_ahead.h"

#include <cmath>

#include "telar/core/error.h"

namespace telar {

StepsAhead::StepsAhead(const Device& device, StepMetrics& metrics)
    : metrics_(metrics),
      returned_(Session::kStepsAhead * (metrics.count() + 1)),
      pinned_(device.pin(std::as_writable_bytes(std::span(returned_)))) {}

void StepsAhead::begun() {
  const size_t values = metrics_.count() + 1;
  const auto place = std::span(returned_).subspan(begun_++ % Session::kStepsAhead * values, values);
  steps_.push_back({metrics_.start_copy_of_all(place), place});
}

StepResult StepsAhead::finished() {
  if (steps_.empty()) throw run_error("there is no result, because no step was begun");
  const auto& [copy, values] = steps_.front();
  copy->wait();
  StepResult result;
  result.metrics.assign(values.begin(), values.end() - 1);
  result.finite = std::isfinite(values.front()) && values.back() == 0;
  steps_.pop_front();
  // The steps begun after it have updated nothing; the next one may update again.
  if (!result.finite && steps_.empty()) metrics_.clear_all();
  return result;
}

}  // namespace telar
