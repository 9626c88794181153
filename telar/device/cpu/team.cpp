#include "telar/device/cpu/team.h"

#include <linux/futex.h>
#include <omp.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cfenv>
#include <chrono>
#include <climits>
#include <memory>
#include <system_error>

#include "telar/core/error.h"
#include "telar/core/signal_stack.h"
#include "telar/core/waiting.h"

namespace telar::cpu {

namespace {

using std::chrono::microseconds;
using SteadyClock = std::chrono::steady_clock;

/// Regions follow each other within microseconds. A thread that the system stops is away for milliseconds.
constexpr microseconds kLook(30);
/// Longer than what a training step does between its regions, and much less than a time slice.
constexpr microseconds kSpin(500);
/// A sleeping worker is not woken more often than this: waking costs several microseconds, and the owner can
/// run short regions alone.
constexpr microseconds kBetweenWakes(100);

constexpr int kExceptions = FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW;

/// Of this thread.
bool take_exceptions_here() {
  if (std::fetestexcept(kExceptions) == 0) return false;
  std::feclearexcept(kExceptions);
  return true;
}

thread_local Team::Place current_place;
thread_local std::unique_ptr<Team> team_of_thread;

/// The word on which the system lets threads sleep.
uint32_t* word_of(std::atomic<uint32_t>& word) { return reinterpret_cast<uint32_t*>(&word); }

void sleep_while(std::atomic<uint32_t>& word, uint32_t value) {
  syscall(SYS_futex, word_of(word), FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}

}  // namespace

Team::Place Team::place() { return current_place; }

Team& Team::of_this_thread() {
  if (current_place.team != nullptr) return *current_place.team;
  const int threads = omp_get_max_threads();
  if (!team_of_thread || team_of_thread->size() < threads) team_of_thread = std::make_unique<Team>(threads);
  return *team_of_thread;
}

void Team::end() { team_of_thread.reset(); }

Team::Team(int size) : members_(static_cast<size_t>(size)) {
  introduce(0);
  try {
    for (int own = 1; own < size; ++own) threads_.emplace_back([this, own] { work(own); });
  } catch (const std::system_error& error) {
    const size_t started = threads_.size() + 1;
    stop();
    throw run_error(
        "only {} of {} threads could be started ({}); a limit of processes (ulimit -u) or of memory (ulimit -v) may be reached",
        started, size, error.code().message());
  }
}

Team::~Team() { stop(); }

void Team::stop() {
  stopping_ = true;
  region_.fetch_add(1);
  wake(region_, waiting_workers_);
  for (std::thread& thread : threads_) thread.join();
}

/// Records which thread the member is.
void Team::introduce(int own) {
  Member& self = members_[static_cast<size_t>(own)];
  self.thread = thread_id();
  self.cpu.store(sched_getcpu(), std::memory_order_release);
}

void Team::run_parts(int members, void (*part)(void*), void* data, Parts parts) {
  if (members <= 1 || current_place.team != nullptr) {
    const Place before = current_place;
    current_place = {this, 0, 1, before.thread};
    part(data);
    current_place = before;
    return;
  }
  ++regions_;
  part_ = part;
  data_ = data;
  parts_ = members;
  const uint32_t region = region_.load(std::memory_order_relaxed) + 1;
  // The owner's part is its own, and parts beyond the region's members count as begun.
  members_[0].claimed.store(region, std::memory_order_relaxed);
  for (auto member = static_cast<size_t>(members); member < members_.size(); ++member)
    members_[member].claimed.store(region, std::memory_order_relaxed);
  members_[0].cpu.store(sched_getcpu(), std::memory_order_relaxed);
  unfinished_.store(static_cast<uint32_t>(members), std::memory_order_relaxed);
  unclaimed_.store(members - 1, std::memory_order_relaxed);
  region_.store(region);
  if (waiting_workers_.load() > 0) {
    const auto now = SteadyClock::now();
    if (parts == Parts::waiting || now - woken_ >= kBetweenWakes) {
      woken_ = now;
      wake(region_, waiting_workers_);
    }
  }
  run_part(0, 0);
  take_parts(0, region);
  const auto finished = [this] { return unfinished_.load() == 0; };
  wait_until(0, unfinished_, waiting_owner_, finished);
}

void Team::run_part(int own, int member) {
  Member& self = members_[static_cast<size_t>(own)];
  self.working.store(true, std::memory_order_release);
  current_place = {this, member, parts_, own};
  part_(data_);
  current_place = {};
  if (own != 0 && take_exceptions_here()) exceptions_.store(true, std::memory_order_relaxed);
  self.working.store(false, std::memory_order_release);
  if (unfinished_.fetch_sub(1) == 1 && own != 0) wake(unfinished_, waiting_owner_);
}

/// Whether this thread may run the member's part of the region: nobody else has begun it. A region ends only
/// after all of its parts, so a thread that is late finds them begun, or finds a part of the latest region.
bool Team::claim(int member, uint32_t region) {
  std::atomic<uint32_t>& claimed = members_[static_cast<size_t>(member)].claimed;
  uint32_t before = region - 1;
  if (claimed.load(std::memory_order_relaxed) != before) return false;
  if (!claimed.compare_exchange_strong(before, region)) return false;
  unclaimed_.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

void Team::take_parts(int own, uint32_t region) {
  for (int member = 1; member < size() && unclaimed_.load(std::memory_order_relaxed) > 0; ++member) {
    if (claim(member, region)) run_part(own, member);
  }
}

bool Team::take_exceptions() {
  const bool here = take_exceptions_here();
  return exceptions_.exchange(false) || here;
}

void Team::work(int own) {
  give_signals_a_stack();
  introduce(own);
  take_exceptions_here();  // a thread begins with those of the one that started it
  Member& self = members_[static_cast<size_t>(own)];
  for (uint32_t seen = 0;;) {
    const auto begun = [this, &seen] { return region_.load() != seen; };
    wait_until(own, region_, waiting_workers_, begun);
    seen = region_.load();
    if (stopping_) return;  // after the load: the number that stop() sets is not that of a region
    self.cpu.store(sched_getcpu(), std::memory_order_relaxed);
    if (claim(own, seen)) run_part(own, own);
    take_parts(own, seen);
  }
}

/// Waits until done(). `word` changes before done() becomes true, and whoever changes it wakes its sleepers.
template <typename Done>
void Team::wait_until(int own, std::atomic<uint32_t>& word, std::atomic<int>& sleepers, const Done& done) {
  if (done()) return;
  if (own != 0) leave_core_of_owner();
  if (spin_until(done, kLook)) return;
  const auto end = SteadyClock::now() + kSpin;
  while (SteadyClock::now() < end) {
    const Member* other = awaited_by(own);
    const int64_t before = other == nullptr ? -1 : processor_time(other->thread);
    if (spin_until(done, kLook)) return;
    if (other == nullptr && unclaimed_.load(std::memory_order_relaxed) > 0) break;
    if (before < 0 || processor_time(other->thread) != before) continue;
    move_to_this_processor(other->thread);
    break;
  }
  sleepers.fetch_add(1);
  for (uint32_t value = word.load(); !done(); value = word.load()) sleep_while(word, value);
  sleepers.fetch_sub(1);
}

/// A thread for which this one waits: one that runs a part, or the owner, who begins regions.
Team::Member* Team::awaited_by(int own) {
  for (size_t member = 0; member < members_.size(); ++member) {
    if (members_[member].working.load(std::memory_order_acquire)) return &members_[member];
  }
  return own == 0 ? nullptr : &members_.front();
}

/// A worker that waits on the owner's processor would keep the owner from running.
void Team::leave_core_of_owner() {
  const int core = sched_getcpu();
  if (core >= 0 && core == members_[0].cpu.load(std::memory_order_relaxed)) leave_this_processor();
}

void Team::wake(std::atomic<uint32_t>& word, const std::atomic<int>& sleepers) {
  if (sleepers.load() > 0)
    syscall(SYS_futex, word_of(word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

void Team::barrier() {
  const Place here = current_place;
  if (here.members <= 1) return;
  const uint32_t turn = barrier_turn_.load();
  if (barrier_arrived_.fetch_add(1) + 1 == here.members) {
    barrier_arrived_.store(0);
    barrier_turn_.store(turn + 1);
    wake(barrier_turn_, waiting_at_barrier_);
    return;
  }
  std::atomic<bool>& working = members_[static_cast<size_t>(here.thread)].working;
  working.store(false, std::memory_order_release);
  const auto passed = [&] { return barrier_turn_.load() != turn; };
  wait_until(here.thread, barrier_turn_, waiting_at_barrier_, passed);
  working.store(true, std::memory_order_release);
}

}  // namespace telar::cpu
