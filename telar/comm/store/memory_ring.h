#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>

// Only for sources in telar/comm/store.

namespace telar {

/// Entries in order, in memory that two processes share: one writes them, and one reads them.
template <typename Entry, uint32_t capacity>
class MemoryRing {
 public:
  /// Empties it, while nobody uses it.
  void clear() {
    written_.count = 0;
    read_.count = 0;
  }

  // For the writer.
  bool full() const {
    return written_.count.load(std::memory_order_relaxed) - read_.count.load(std::memory_order_acquire) >=
           capacity;
  }
  /// Of a ring that is not full. fill(entry) writes the next entry.
  template <typename Fill>
  void put(const Fill& fill) {
    const uint32_t next = written_.count.load(std::memory_order_relaxed);
    fill(entries_[next % capacity]);
    written_.count.store(next + 1);
    if (written_.sleeping.exchange(0) != 0) wake();
  }

  // For the reader.
  bool empty() const {
    return written_.count.load(std::memory_order_acquire) == read_.count.load(std::memory_order_relaxed);
  }
  /// use(entry) copies what it needs; the other process may have damaged it. Returns false if there is none.
  template <typename Use>
  bool take(const Use& use) {
    const uint32_t next = read_.count.load(std::memory_order_relaxed);
    if (written_.count.load(std::memory_order_acquire) == next) return false;
    use(entries_[next % capacity]);
    read_.count.store(next + 1, std::memory_order_release);
    return true;
  }
  /// Returns when there is an entry, after wake(), or later.
  void wait(std::chrono::milliseconds longest) {
    const uint32_t seen = read_.count.load(std::memory_order_relaxed);
    for (int i = 0; i < kLooks; ++i) {
      if (written_.count.load(std::memory_order_acquire) != seen) return;
      __builtin_ia32_pause();
    }
    written_.sleeping.store(1);
    if (written_.count.load() != seen) return;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(longest);
    const timespec time{.tv_sec = seconds.count(),
                        .tv_nsec = std::chrono::nanoseconds(longest - seconds).count()};
    syscall(SYS_futex, &written_.count, FUTEX_WAIT, seen, &time, nullptr, 0);
  }
  void wake() { syscall(SYS_futex, &written_.count, FUTEX_WAKE, 1, nullptr, nullptr, 0); }

 private:
  /// Polls before sleeping: only some microseconds, because the other side may need this core.
  static constexpr int kLooks = 200;
  struct alignas(64) Written {
    std::atomic<uint32_t> count{0};
    std::atomic<uint32_t> sleeping{0};  ///< the reader, until there are more
  };
  struct alignas(64) Read {
    std::atomic<uint32_t> count{0};
  };
  static_assert(std::atomic<uint32_t>::is_always_lock_free);

  Written written_;
  Read read_;
  std::array<Entry, capacity> entries_;
};

}  // namespace telar
