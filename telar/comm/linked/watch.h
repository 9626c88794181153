#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "telar/comm/linked/links.h"
#include "telar/core/error.h"

namespace telar {

/// What a thread waits for: a message wakes it, but what another process writes into shared memory does not.
enum class Waits : uint8_t { for_messages, for_memory };

/// How a process ends its part: it waits for the others, and ends with them if one is lost; or it leaves.
enum class Ending : uint8_t { together, alone };

/// A thread that tells the other processes once a second that this one is alive, and records when each was
/// last heard of. It is independent of the computation, so a long step does not count as a failure; a stopped
/// or lost process does.
class Watch {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kEvery{1};
  static constexpr std::chrono::seconds kPatience{20};
  static constexpr std::chrono::seconds kLastResort{6};

  Watch(ProcessLinks& links, Ending ending);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// Whether a process has not been heard of for kPatience.
  bool silent(int rank) const { return silent_[static_cast<size_t>(rank)]; }
  /// Throws Error (run) if a process is known to be lost, or has not been heard of for kPatience.
  void check() const;
  /// `last_resort` is called on the thread when kLastResort has passed after a process was lost, because this
  /// process computes or waits without calling check().
  void when_lost(std::function<void(const Error&)> last_resort);

  /// Calls `done` until it returns true or check() throws.
  template <typename Done>
  void wait_until(const Done& done, Waits waits = Waits::for_messages) const {
    const int yields = waits == Waits::for_memory ? kYieldsForMemory : kYields;
    for (int turns = 0; !done(); ++turns) {
      if (turns < kSpins) continue;
      check();
      if (turns < yields)
        std::this_thread::yield();
      else
        links_.rest();
    }
  }

  /// Waits until the messages have passed.
  void wait(Transfer& transfer) const {
    wait_until([&transfer] { return transfer.done(); });
  }
  void wait(std::span<const std::unique_ptr<Transfer>> transfers) const {
    for (const auto& transfer : transfers) wait(*transfer);
  }

 private:
  static constexpr int kSpins = 100;
  static constexpr int kYields = 1000;
  static constexpr int kYieldsForMemory = 20000;  // some 10 ms, after which a millisecond more is little

  Error silent_error(int rank) const;
  void listen();
  void speak();
  void judge();
  void judge_links();

  ProcessLinks& links_;
  Ending ending_;
  std::vector<Clock::time_point> heard_;
  std::vector<std::unique_ptr<Transfer>> words_;     ///< to each process; null: this one
  std::vector<std::unique_ptr<Transfer>> received_;  ///< from each
  std::vector<char> inbox_;                          ///< of received_
  char word_ = 0;
  std::vector<std::atomic<bool>> silent_;  ///< by rank
  std::atomic<int> last_silent_{-1};
  Clock::time_point lost_{};  ///< when the links first knew of a lost process
  std::mutex mutex_;          ///< guards last_resort_
  std::function<void(const Error&)> last_resort_;
  std::jthread thread_;
};

}  // namespace telar
