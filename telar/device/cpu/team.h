#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace telar::cpu {

/// The threads that compute one replica's operations: the thread that owns the team, and workers.
///
/// A region is a piece of work in fixed parts, one for each member. Which thread runs a part is open: each
/// thread begins with its own part, and then takes parts that no thread has begun. So a thread that the
/// system does not run holds nobody up unless it was stopped in the middle of a part. The parts, and with
/// them the bits of the results, do not depend on it.
///
/// A thread that waits spins for a while, because the next region usually begins within microseconds. Then it
/// looks whether the thread for which it waits runs at all. If that one waits for a processor that another
/// program uses, the waiting thread gives it its own processor and sleeps. Without that, a team on a shared
/// machine would run at the speed of the slowest processor, while the other processors spin.
///
/// As many parts can wait for each other within a region (barriers) as the region has members, because each
/// thread that waits inside a part holds one part only.
class Team {
 public:
  /// A team of `size` threads with the calling thread's affinity; that thread owns the team.
  explicit Team(int size);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  /// This thread's team, or the one for which it works in a region. A team is created when first asked for,
  /// and again when omp_get_max_threads() has grown beyond it.
  static Team& of_this_thread();
  /// Ends this thread's team, so that the next one gets the thread's present affinity.
  static void end();

  int size() const { return static_cast<int>(threads_.size()) + 1; }
  /// Regions run so far by more than one member.
  uint64_t regions() const { return regions_; }

  /// Calls body(member, members) for each member in [0, members); members <= size(). Returns when all calls
  /// have returned. The body must not throw. Called inside a region, it calls body(0, 1).
  template <typename Body>
  void run(int members, const Body& body) {
    const auto call = [](void* data) {
      const Place here = place();
      (*static_cast<const Body*>(data))(here.member, here.members);
    };
    run_parts(members, call, const_cast<Body*>(&body), Parts::independent);
  }
  /// Whether a part may wait for another one of its region.
  enum class Parts { independent, waiting };
  /// The same for a function that asks place() which part to run.
  void run_parts(int members, void (*part)(void*), void* data, Parts parts);

  /// The part of a region that this thread runs; without a region, member 0 of 1.
  struct Place {
    Team* team = nullptr;  ///< null outside regions
    int member = 0;
    int members = 1;
    int thread = 0;  ///< which of the team's threads runs it
  };
  static Place place();

  /// Waits, inside a region of Parts::waiting, until all members have called it.
  void barrier();

  /// Whether the owner's thread, or a worker in a region, has made a NaN or infinity, or compared a NaN,
  /// since the last call. The processor notes it by itself (IEEE 754: invalid, divide by zero, overflow).
  bool take_exceptions();

 private:
  struct alignas(64) Member {
    std::atomic<uint32_t> claimed{0};  ///< the last region whose part of this member was begun
    std::atomic<bool> working{false};  ///< whether this member's thread runs a part and does not wait in it
    std::atomic<int> cpu{-1};          ///< where this member's thread last began to work or to wait
    int32_t thread = 0;                ///< its thread_id()
  };

  void stop();
  void work(int own);
  void run_part(int own, int member);
  void take_parts(int own, uint32_t region);
  bool claim(int member, uint32_t region);
  void introduce(int own);

  template <typename Done>
  void wait_until(int own, std::atomic<uint32_t>& word, std::atomic<int>& sleepers, const Done& done);
  Member* awaited_by(int own);
  void leave_core_of_owner();
  void wake(std::atomic<uint32_t>& word, const std::atomic<int>& sleepers);

  std::vector<Member> members_;  ///< members_[0] is the owner
  void (*part_)(void*) = nullptr;
  void* data_ = nullptr;
  int parts_ = 0;
  uint64_t regions_ = 0;
  std::chrono::steady_clock::time_point woken_{};

  alignas(64) std::atomic<uint32_t> region_{0};      ///< the number of the latest region
  std::atomic<int> waiting_workers_{0};              ///< that sleep until the next region
  std::atomic<int> unclaimed_{0};                    ///< parts of the region that no thread has begun
  alignas(64) std::atomic<uint32_t> unfinished_{0};  ///< parts of the region
  std::atomic<int> waiting_owner_{0};
  alignas(64) std::atomic<uint32_t> barrier_turn_{0};
  std::atomic<int> barrier_arrived_{0};
  std::atomic<int> waiting_at_barrier_{0};

  std::atomic<bool> exceptions_{false};  ///< that workers have found in their parts
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> threads_;
};

/// While it exists, oneDNN's parallel regions on this thread run on the thread's team. oneDNN asks OpenMP for
/// them; other users of OpenMP are not affected.
class OnTeam {
 public:
  OnTeam();
  ~OnTeam();
  OnTeam(const OnTeam&) = delete;
  OnTeam& operator=(const OnTeam&) = delete;
};

}  // namespace telar::cpu
