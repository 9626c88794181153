#include "telar/core/waiting.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>
#include <mutex>

namespace telar {

namespace {

/// A thread may wait in a team and in a group of replicas. Two who moved it at the same time would each take
/// the other's momentary affinity for its own, and it would stay bound.
std::mutex moving;

}  // namespace

int32_t thread_id() {
  static const thread_local auto id = static_cast<int32_t>(syscall(SYS_gettid));
  return id;
}

int64_t processor_time(int32_t thread) {
  if (thread <= 0) return -1;
  // The number of a thread's clock, as pthread_getcpuclockid() forms it (linux/posix-timers_types.h). That
  // function needs a pthread_t, which must not be used once its thread has ended.
  constexpr clockid_t kOfThread = 4 | 2;
  const clockid_t clock = ~static_cast<clockid_t>(thread) * 8 | kOfThread;
  timespec time{};
  if (clock_gettime(clock, &time) != 0) return -1;
  return int64_t{1'000'000'000} * time.tv_sec + time.tv_nsec;
}

void move_to_this_processor(int32_t thread) {
  const std::unique_lock lock(moving, std::try_to_lock);
  if (!lock.owns_lock()) return;
  const int here = sched_getcpu();
  cpu_set_t allowed;
  if (here < 0 || sched_getaffinity(thread, sizeof allowed, &allowed) != 0) return;
  if (!CPU_ISSET(static_cast<size_t>(here), &allowed)) return;
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(static_cast<size_t>(here), &only);
  sched_setaffinity(thread, sizeof only, &only);
  sched_setaffinity(thread, sizeof allowed, &allowed);
}

void leave_this_processor() {
  const std::unique_lock lock(moving, std::try_to_lock);
  if (!lock.owns_lock()) return;
  const int here = sched_getcpu();
  cpu_set_t allowed;
  if (here < 0 || sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2) return;
  cpu_set_t elsewhere = allowed;
  CPU_CLR(static_cast<size_t>(here), &elsewhere);
  sched_setaffinity(0, sizeof elsewhere, &elsewhere);
  sched_setaffinity(0, sizeof allowed, &allowed);
}

}  // namespace telar
