#include "telar/device/cuda/fastest.h"

#include <algorithm>

#include "telar/core/error.h"
#include "telar/device/cuda/check.h"
#include "telar/device/cuda/recording.h"

namespace telar::cuda {

namespace {

class Mark {
 public:
  Mark() { check(cudaEventCreate(&event_), "creating an event"); }
  ~Mark() { cudaEventDestroy(event_); }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
  void record(const Gpu& gpu) const { check(cudaEventRecord(event_, gpu.stream()), "recording an event"); }
  /// Milliseconds from `begin` to this mark, once the stream has reached both.
  float since(const Mark& begin) const {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin.event_, event_), "reading an event");
    return milliseconds;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Measures milliseconds on the stream.
class Clock {
 public:
  explicit Clock(const Gpu& gpu) : gpu_(gpu) {}
  float time(const std::function<void()>& enqueue) const {
    begin_.record(gpu_);
    enqueue();
    end_.record(gpu_);
    gpu_.wait();
    return end_.since(begin_);
  }

 private:
  const Gpu& gpu_;
  Mark begin_;
  Mark end_;
};

/// CUDA keeps an error; without this call the next kernel would appear to have failed.
void forget_error() { cudaGetLastError(); }

/// Records `calls` calls, one after the other, as a step plays them; none when they cannot be recorded.
std::optional<Recording> record(const Gpu& gpu, int calls, const std::function<bool()>& enqueue) {
  try {
    return Recording(gpu, [&] {
      for (int i = 0; i < calls; ++i)
        if (!enqueue()) throw run_error("the algorithm cannot be recorded");
    });
  } catch (const Error&) {
    forget_error();
    return std::nullopt;
  }
}

}  // namespace

std::optional<Fastest> fastest(const Gpu& gpu, size_t candidates,
                               const std::function<bool(size_t candidate)>& enqueue) {
  constexpr int kRounds = 3;
  constexpr float kRoundMilliseconds = 1;
  constexpr float kMostCalls = 20;
  constexpr float kHopeless = 3;
  constexpr float kHostMilliseconds = 0.1F;  // a faster first call may have measured the host's time only
  const Clock clock(gpu);
  struct Best {
    size_t candidate;
    float first;  ///< the time of one call without recording
    float time;
  };
  std::optional<Best> best;
  std::optional<Best> unrecorded;
  for (size_t candidate = 0; candidate < candidates; ++candidate) {
    const auto once = [&] { return enqueue(candidate); };
    if (!once()) {  // this first call also loads the kernel
      forget_error();
      continue;
    }
    const float first = clock.time(once);
    if (best && first > kHopeless * std::max(best->first, kHostMilliseconds)) continue;
    const auto calls =
        static_cast<int>(std::clamp(kRoundMilliseconds / std::max(first, 1e-3F), 1.0F, kMostCalls));
    const std::optional<Recording> recording = record(gpu, calls, once);
    if (!recording) {
      if (!unrecorded || first < unrecorded->first) unrecorded = {candidate, first, first};
      continue;
    }
    const auto round = [&] { recording->play(gpu); };
    float time = clock.time(round);
    for (int i = 1; i < kRounds; ++i) time = std::min(time, clock.time(round));
    time /= static_cast<float>(calls);
    if (!best || time < best->time) best = {candidate, first, time};
  }
  if (best) return Fastest{best->candidate, true};
  if (unrecorded) return Fastest{unrecorded->candidate, false};
  return std::nullopt;
}

}  // namespace telar::cuda
