#include "telar/device/cuda/fastest.h"

#include <algorithm>

#include "telar/device/cuda/check.h"

namespace telar::cuda {

namespace {

class Mark {
 public:
  Mark() { check(cudaEventCreate(&event_), "making an event"); }
  ~Mark() { cudaEventDestroy(event_); }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
  void record(const Gpu& gpu) const { check(cudaEventRecord(event_, gpu.stream()), "recording an event"); }
  /// Milliseconds from `begin` to this one, which it waits for.
  float since(const Mark& begin) const {
    check(cudaEventSynchronize(event_), "trying an algorithm");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin.event_, event_), "reading an event");
    return milliseconds;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Of one of `calls` calls, one behind the other.
float milliseconds(const Gpu& gpu, const Mark& begin, const Mark& end, int calls,
                   const std::function<bool()>& enqueue) {
  begin.record(gpu);
  for (int i = 0; i < calls; ++i) enqueue();
  end.record(gpu);
  return end.since(begin) / static_cast<float>(calls);
}

}  // namespace

std::optional<size_t> fastest(const Gpu& gpu, size_t candidates,
                              const std::function<bool(size_t candidate)>& enqueue) {
  constexpr int kRounds = 3;
  constexpr float kRoundMilliseconds = 1;
  constexpr float kMostCalls = 20;
  const Mark begin;
  const Mark end;
  std::optional<size_t> best;
  float least = 0;
  for (size_t candidate = 0; candidate < candidates; ++candidate) {
    const auto once = [&] { return enqueue(candidate); };
    if (!once()) continue;  // this first call also loads its code
    const float estimate = milliseconds(gpu, begin, end, 1, once);
    const auto calls =
        static_cast<int>(std::clamp(kRoundMilliseconds / std::max(estimate, 1e-3F), 1.0F, kMostCalls));
    float time = estimate;
    for (int round = 0; round < kRounds; ++round)
      time = std::min(time, milliseconds(gpu, begin, end, calls, once));
    if (!best || time < least) {
      best = candidate;
      least = time;
    }
  }
  return best;
}

}  // namespace telar::cuda
