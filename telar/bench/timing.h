#pragma once

#include <algorithm>
#include <chrono>
#include <numeric>
#include <vector>

#include "telar/bench/spread.h"

namespace telar::bench {

/// The durations of repeated calls.
struct Times {
  std::vector<double> milliseconds;
  double median() const { return median_of(milliseconds); }
  double mean() const {
    const double sum = std::accumulate(milliseconds.begin(), milliseconds.end(), 0.0);
    return sum / static_cast<double>(milliseconds.size());
  }
  double min() const { return *std::min_element(milliseconds.begin(), milliseconds.end()); }
  double max() const { return *std::max_element(milliseconds.begin(), milliseconds.end()); }
};

/// Times `calls` calls. `prepare` is called before each and is not timed.
template <typename Prepare, typename Body>
Times time_calls(int calls, const Prepare& prepare, const Body& body) {
  using Clock = std::chrono::steady_clock;
  Times times;
  for (int i = 0; i < calls; ++i) {
    prepare();
    const auto start = Clock::now();
    body();
    times.milliseconds.push_back(1e3 * std::chrono::duration<double>(Clock::now() - start).count());
  }
  return times;
}

/// Times at least `calls` calls, until they add up to `seconds`.
template <typename Prepare, typename Body>
Times time_calls(int calls, double seconds, const Prepare& prepare, const Body& body) {
  Times times;
  double total = 0;
  while (times.milliseconds.size() < static_cast<size_t>(calls) || total < 1e3 * seconds) {
    times.milliseconds.push_back(time_calls(1, prepare, body).milliseconds.front());
    total += times.milliseconds.back();
  }
  return times;
}

/// The same after a warm-up, with at least 10 calls.
template <typename Prepare, typename Body>
Times time_calls(double seconds, const Prepare& prepare, const Body& body) {
  time_calls(3, seconds / 4, prepare, body);
  return time_calls(10, seconds, prepare, body);
}

template <typename Body>
Times time_calls(double seconds, const Body& body) {
  return time_calls(
      seconds, [] {}, body);
}

}  // namespace telar::bench
