#pragma once

#include <chrono>
#include <cstdint>

namespace telar {

/// Tells the processor that this thread spins.
inline void pause_processor() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// Spins until done() or until `time` has passed; returns done().
template <typename Done>
bool spin_until(const Done& done, std::chrono::microseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  do {
    for (int i = 0; i < 64; ++i) {
      if (done()) return true;
      pause_processor();
    }
  } while (std::chrono::steady_clock::now() < end);
  return done();
}

/// This thread's number, for the functions below; always positive.
int32_t thread_id();

/// Nanoseconds of processor time that a thread of this process has used. It stands still while the thread
/// waits for a processor or sleeps. -1: there is no such thread.
int64_t processor_time(int32_t thread);

/// Moves a thread of this process to the processor of this thread, which is about to sleep; afterwards the
/// thread may run where it could before. Used for a thread that waits for a processor: the system itself
/// may leave it waiting for a whole time slice of another program. Does nothing if the thread may not run
/// here, or while another thread is being moved.
void move_to_this_processor(int32_t thread);

/// Moves this thread to another processor, if it may run on one; afterwards it may run where it could before.
/// Does nothing while another thread is being moved.
void leave_this_processor();

}  // namespace telar
