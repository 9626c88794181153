#include "telar/train/worker_policy.h"

#include <algorithm>
#include <cmath>

namespace telar {

namespace {

constexpr double kTooMuch = 0.5;  // of the lag that is to be kept
constexpr double kLittle = 0.25;
constexpr double kMargin = 0.7;  // of what workers manage, so that fewer of them still keep up
// Seconds:
constexpr double kWindow = 5;  // over which rates are measured
constexpr double kEnough = 3;  // the least of it
constexpr double kStart = 10;  // for which a new worker is waited for
constexpr double kCalm = 15;

int64_t workers_for(double rate, double of_one) {
  constexpr double kMost = 1e6;
  return static_cast<int64_t>(std::min(kMost, std::ceil(rate / of_one)));
}

}  // namespace

double WorkerLoad::lag_seconds() const {
  const double rate = static_cast<double>(working) * of_one;
  return rate > 0 ? static_cast<double>(lag) / rate : 0;
}

int64_t WorkerPolicy::decide(const WorkerLoad& load) {
  if (load.of_one <= 0 || load.working == 0) {
    calm_since_.reset();
    return wanted_;
  }
  const double lag = load.lag_seconds() / limits_.lag_seconds;
  if (lag > kTooMuch) {
    grow(load);
  } else if (lag < kLittle) {
    shrink(load);
  } else {
    calm_since_.reset();
  }
  return wanted_;
}

void WorkerPolicy::grow(const WorkerLoad& load) {
  calm_since_.reset();
  const bool starting = load.working < wanted_ && grown_ && load.now - *grown_ < kStart;
  const double rate = load.arriving + static_cast<double>(load.lag) / limits_.lag_seconds;
  const int64_t needed = std::min({workers_for(rate, load.of_one), 2 * wanted_, limits_.max});
  if (starting || needed <= wanted_) return;
  wanted_ = needed;
  grown_ = load.now;
}

void WorkerPolicy::shrink(const WorkerLoad& load) {
  const int64_t needed = std::max(limits_.min, workers_for(load.arriving, kMargin * load.of_one));
  if (needed >= wanted_) return calm_since_.reset();
  if (!calm_since_) {
    calm_since_ = load.now;
    needed_meanwhile_ = needed;
  }
  needed_meanwhile_ = std::max(needed_meanwhile_, needed);
  if (load.now - *calm_since_ < kCalm) return;
  wanted_ = std::max(needed_meanwhile_, wanted_ / 2);
  calm_since_.reset();
}

void WorkerLoadMeter::done(int64_t samples, double busy_seconds) {
  total_.samples += samples;
  total_.busy_seconds += busy_seconds;
}

WorkerLoad WorkerLoadMeter::measure(double now, int64_t existing, int64_t lag, int64_t working,
                                    bool steps_wait) {
  if (total_.samples == 0) readings_.clear();  // what has arrived before the training is no rate
  total_.time = now;
  total_.existing = existing;
  readings_.push_back(total_);
  while (readings_.size() > 2 && now - readings_[1].time >= kWindow) readings_.pop_front();
  const Reading& before = readings_.front();
  const double seconds = now - before.time;
  WorkerLoad load{.now = now, .lag = lag, .working = working};
  if (seconds > 0) load.arriving = static_cast<double>(existing - before.existing) / seconds;
  const int64_t samples = total_.samples - before.samples;
  const double busy = total_.busy_seconds - before.busy_seconds;
  if (seconds >= kEnough && samples > 0 && busy > 0) in_steps_ = static_cast<double>(samples) / busy;
  if (!steps_wait || working != working_) waiting_since_.reset();
  if (steps_wait && !waiting_since_) waiting_since_ = total_;
  working_ = working;
  measure_share();
  load.of_one = share_ * in_steps_;
  return load;
}

void WorkerLoadMeter::measure_share() {
  if (!waiting_since_ || working_ == 0) return;
  const double waiting = total_.time - waiting_since_->time;
  const double busy = total_.busy_seconds - waiting_since_->busy_seconds;
  if (waiting < kEnough || busy <= 0) return;
  share_ = std::min(1.0, busy / waiting / static_cast<double>(working_));
}

}  // namespace telar
