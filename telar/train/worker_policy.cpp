#include "telar/train/worker_policy.h"

#include <algorithm>
#include <cmath>

namespace telar {

namespace {

constexpr double kWindow = 5;         // seconds over which rates are measured
constexpr double kStart = 10;         // for which a new worker is waited for
constexpr double kCalm = 15;
constexpr double kMargin = 0.7;       // of what workers manage, so that fewer of them still keep up

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
  if (load.of_one <= 0) return wanted_;
  const bool behind = load.lag_seconds() > limits_.lag_seconds / 2;
  // Workers that are behind work all the time, so what they have done is what they can do, reading included.
  const bool all_work = behind && load.working > 0 && load.done > 0;
  const double of_one =
      all_work ? std::min(load.of_one, load.done / static_cast<double>(load.working)) : load.of_one;
  if (behind) {
    grow(load, of_one);
  } else {
    shrink(load, of_one);
  }
  return wanted_;
}

void WorkerPolicy::grow(const WorkerLoad& load, double of_one) {
  calm_since_.reset();
  const bool starting = load.working < wanted_ && grown_ && load.now - *grown_ < kStart;
  const double rate = load.arriving + static_cast<double>(load.lag) / limits_.lag_seconds;
  const int64_t needed = std::min({workers_for(rate, of_one), 2 * wanted_, limits_.max});
  if (starting || needed <= wanted_) return;
  wanted_ = needed;
  grown_ = load.now;
}

void WorkerPolicy::shrink(const WorkerLoad& load, double of_one) {
  const int64_t needed = std::max(limits_.min, workers_for(load.arriving, kMargin * of_one));
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

WorkerLoad WorkerLoadMeter::measure(double now, int64_t existing, int64_t lag, int64_t working) {
  if (total_.samples == 0) readings_.clear();  // what has arrived before the training is no rate
  total_.time = now;
  total_.existing = existing;
  readings_.push_back(total_);
  while (readings_.size() > 2 && now - readings_[1].time >= kWindow) readings_.pop_front();
  const Reading& before = readings_.front();
  WorkerLoad load{.now = now, .lag = lag, .working = working};
  const double seconds = now - before.time;
  const auto samples = static_cast<double>(total_.samples - before.samples);
  if (seconds > 0) {
    load.arriving = static_cast<double>(existing - before.existing) / seconds;
    load.done = samples / seconds;
  }
  const double busy = total_.busy_seconds - before.busy_seconds;
  if (samples > 0 && busy > 0) of_one_ = samples / busy;
  load.of_one = of_one_;
  return load;
}

}  // namespace telar
