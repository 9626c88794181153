#include "telar/runtime/stage_exchange.h"

#include "telar/core/waiting.h"

namespace telar {

void StageProgress::advance() {
  // Once stopped, it stays stopped.
  int64_t done = done_.load(std::memory_order_relaxed);
  while (done != kStopped && !done_.compare_exchange_weak(done, done + 1, std::memory_order_acq_rel)) {
  }
  done_.notify_all();
}

bool StageProgress::wait_for(int64_t count) const {
  constexpr int kSpins = 20000;  // about 0.2 ms: as long as a sleeping thread may take to wake up
  for (int spins = 0; spins < kSpins; ++spins) {
    const int64_t done = this->count();
    if (done == kStopped) return false;
    if (done >= count) return true;
    pause_processor();
  }
  while (true) {
    const int64_t done = this->count();
    if (done == kStopped) return false;
    if (done >= count) return true;
    done_.wait(done, std::memory_order_acquire);
  }
}

void StageProgress::stop() {
  done_.store(kStopped, std::memory_order_release);
  done_.notify_all();
}

void StageExchange::reserve(int64_t samples) {
  bool known = samples <= samples_;
  for (const auto& [name, layout] : layouts) known = known && offsets_.contains(name);
  if (known) return;
  samples_ = std::max(samples, samples_);
  size_t bytes = 0;
  for (const auto& [name, layout] : layouts) {
    offsets_[name] = bytes;
    bytes += align_up(sample_bytes(layout) * static_cast<size_t>(samples_));
  }
  memory_.at_least(bytes);
  ++generation_;
}

std::map<std::string, std::byte*> StageExchange::addresses(int64_t first) {
  std::map<std::string, std::byte*> addresses;
  for (const auto& [name, layout] : layouts) {
    addresses[name] = memory_.data() + offsets_.at(name) + sample_bytes(layout) * static_cast<size_t>(first);
  }
  return addresses;
}

void StageExchange::stop() {
  for (StageProgress& progress : forward) progress.stop();
  for (StageProgress& progress : backward) progress.stop();
}

void StageExchange::reset() {
  ++resets_;
  for (StageProgress& progress : forward) progress.reset();
  for (StageProgress& progress : backward) progress.reset();
}

}  // namespace telar
