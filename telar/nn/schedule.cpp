#include "telar/nn/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "telar/core/error.h"

namespace telar {

namespace {

double rate_after(const Schedule& schedule, const ConstantSchedule&, int64_t /*done*/) {
  return schedule.base;
}

double rate_after(const Schedule& schedule, const PlateauSchedule&, int64_t /*done*/) {
  return schedule.base;
}

double rate_after(const Schedule& schedule, const StepSchedule& shape, int64_t done) {
  auto drops = std::count_if(shape.milestones.begin(), shape.milestones.end(),
                             [&](int64_t milestone) { return milestone <= done; });
  if (shape.every > 0) drops += done / shape.every;
  return schedule.base * std::pow(shape.gamma, static_cast<double>(drops));
}

double periods(int64_t done, int64_t every) { return static_cast<double>(done) / static_cast<double>(every); }

double rate_after(const Schedule& schedule, const ExponentialSchedule& shape, int64_t done) {
  return schedule.base * std::pow(shape.gamma, periods(done, shape.every));
}

double rate_after(const Schedule& schedule, const InverseTimeSchedule& shape, int64_t done) {
  return schedule.base / (1 + shape.decay * periods(done, shape.every));
}

double rate_after(const Schedule& schedule, const CosineSchedule& shape, int64_t done) {
  if (schedule.total_steps <= schedule.warmup_steps) {
    throw user_error("a cosine schedule over {} steps with a warm-up of {}; the warm-up must be shorter",
                     schedule.total_steps, schedule.warmup_steps);
  }
  const auto length = static_cast<double>(schedule.total_steps - schedule.warmup_steps);
  const double part = std::min(1.0, static_cast<double>(done - schedule.warmup_steps) / length);
  return shape.minimum + (schedule.base - shape.minimum) * (1 + std::cos(std::numbers::pi * part)) / 2;
}

}  // namespace

double learning_rate(const Schedule& schedule, int64_t step) {
  if (step < 1) throw user_error("there is no learning rate for step {}; the first step is 1", step);
  if (step <= schedule.warmup_steps) {
    return schedule.warmup_from + (schedule.base - schedule.warmup_from) * static_cast<double>(step) /
                                      static_cast<double>(schedule.warmup_steps);
  }
  return std::visit([&](const auto& shape) { return rate_after(schedule, shape, step - 1); }, schedule.shape);
}

int64_t steps_of_epochs(double epochs, int64_t steps_per_epoch) {
  return std::max<int64_t>(0, std::llround(epochs * static_cast<double>(steps_per_epoch)));
}

}  // namespace telar
