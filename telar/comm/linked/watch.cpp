#include "telar/comm/linked/watch.h"

#include <utility>

#include "telar/comm/linked/collectives.h"

namespace telar {

Watch::Watch(ProcessLinks& links, Ending ending)
    : links_(links), ending_(ending), silent_(static_cast<size_t>(links.size())) {
  const size_t size = silent_.size();
  heard_.assign(size, Clock::now());
  words_.resize(size);
  received_.resize(size);
  inbox_.resize(size);
  for (int other = 0; other < links.size(); ++other) {
    if (other == links.rank()) continue;
    const auto o = static_cast<size_t>(other);
    words_[o] = links.to(other, Lane::watch, 0, std::as_bytes(std::span(&word_, 1)));
    received_[o] =
        started(links.from(other, Lane::watch, 0, std::as_writable_bytes(std::span(&inbox_[o], 1))));
  }
  thread_ = std::jthread([this](const std::stop_token& stop) {
    constexpr std::chrono::milliseconds kNap{50};
    constexpr std::chrono::seconds kAbsence{5};
    for (auto next = Clock::now(); !stop.stop_requested(); std::this_thread::sleep_for(kNap)) {
      const auto now = Clock::now();
      judge_links();
      if (now < next) continue;
      // A process that was stopped and resumed must not consider the others silent.
      if (now - next > kAbsence) heard_.assign(heard_.size(), now);
      next = now + kEvery;
      listen();
      judge();
      speak();
    }
  });
}

/// All processes come here at the end, unless they leave. Rank 0 may still be writing; the others keep
/// watching it until it comes.
Watch::~Watch() {
  if (ending_ == Ending::alone) {
    thread_ = {};
    links_.leave();
    return;
  }
  try {
    const auto nap = [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); };
    meet(links_, *this, Lane::watch, 1, nap);
    thread_ = {};
    meet(links_, *this, Lane::watch, 1, nap);
    listen();
  } catch (const Error& error) {
    links_.abort(1, error.what());
  }
}

void Watch::check() const {
  links_.check();
  const int silent = last_silent_.load(std::memory_order_relaxed);
  if (silent >= 0) throw silent_error(silent);
}

Error Watch::silent_error(int rank) const {
  const std::string last = links_.last_of(rank);
  return run_error(
      "the process of {} has not answered for {} s: it died, was stopped, or its host cannot be reached{}{}; the last checkpoint is whole; continue from it with --resume, with any number of processes",
      links_.name(rank), kPatience.count(), last.empty() ? "" : "; ", last);
}

void Watch::when_lost(std::function<void(const Error&)> last_resort) {
  const std::lock_guard lock(mutex_);
  last_resort_ = std::move(last_resort);
}

void Watch::listen() {
  for (size_t other = 0; other < received_.size(); ++other) {
    while (received_[other] != nullptr && received_[other]->done()) {
      heard_[other] = Clock::now();
      received_[other]->start();
    }
  }
}

void Watch::speak() {
  for (const auto& word : words_)
    if (word != nullptr && word->done()) word->start();
}

void Watch::judge() {
  for (int other = 0; other < links_.size(); ++other) {
    const auto silence = Clock::now() - heard_[static_cast<size_t>(other)];
    if (other == links_.rank() || silence < kPatience) continue;
    silent_[static_cast<size_t>(other)] = true;
    last_silent_ = other;
    if (silence < kPatience + kLastResort) continue;
    const std::lock_guard lock(mutex_);
    if (last_resort_) std::exchange(last_resort_, nullptr)(silent_error(other));
  }
}

void Watch::judge_links() {
  try {
    links_.check();
  } catch (const Error& error) {
    if (lost_ == Clock::time_point()) lost_ = Clock::now();
    if (Clock::now() - lost_ < kLastResort) return;
    const std::lock_guard lock(mutex_);
    if (last_resort_) std::exchange(last_resort_, nullptr)(error);
  }
}

}  // namespace telar
