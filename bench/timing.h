#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

namespace telar::bench {

struct Times {
  std::vector<double> milliseconds;
  double median() const {
    auto sorted = milliseconds;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
  double min() const { return *std::min_element(milliseconds.begin(), milliseconds.end()); }
  double max() const { return *std::max_element(milliseconds.begin(), milliseconds.end()); }
};

/// After a warm-up, at least 10 calls and `seconds`.
template <typename Body>
Times time_calls(double seconds, const Body& body) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  const auto warm_up = Clock::now();
  for (int i = 0; i < 3 || since(warm_up) < seconds / 4; ++i) body();
  Times times;
  double total = 0;
  while (times.milliseconds.size() < 10 || total < seconds) {
    const auto start = Clock::now();
    body();
    const double elapsed = since(start);
    times.milliseconds.push_back(1e3 * elapsed);
    total += elapsed;
  }
  return times;
}

}  // namespace telar::bench
