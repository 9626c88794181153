#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "telar/comm/group.h"
#include "telar/core/error.h"

namespace telar {

/// The processes that train one job together: those that mpirun or srun has started. Each calls the same operations in the
/// same order, but for abort(). All of them run the same job on as many replicas; rank 0 alone prints, writes and saves.
///
/// A process that dies or stops answering for 20 s (it is watched once a second, whatever else it does) ends the waiting of
/// the others with an Error (run) that names it.
class Processes {
 public:
  virtual ~Processes() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// How many of them share this host.
  virtual int on_this_host() const = 0;
  /// Which of these it is, from 0, in the order of ranks.
  virtual int index_on_this_host() const = 0;

  /// Replaces the bytes by those of rank `from`, of the same number. Waits.
  virtual void broadcast(std::span<std::byte> bytes, int from = 0) = 0;
  /// The lowest of the values of all. Waits.
  virtual int lowest(int value) = 0;

  /// Replaces each value by the lowest that a process has in its place; all give as many. Waits.
  virtual void lowest(std::span<float> values) = 0;
  /// Waits for all, asleep but for a moment every few milliseconds: for those who leave the cores to others meanwhile.
  virtual void sleep_until_all_come() = 0;
  /// Replaces the values by their sums over the processes, by the communication library's own blocking call; a process that is
  /// lost is not noticed in it. For measuring beside it.
  virtual void library_all_reduce(std::span<float> values) = 0;

  /// Replaces the text by that of rank `from`, of any length. Waits.
  void broadcast(std::string& text, int from = 0);
  /// True for all when it is true for one. Waits.
  bool any(bool value);
  /// The text of the lowest rank that has one that is not empty. Waits.
  std::string first_text(std::string text);
  /// The texts of all, in the order of ranks. Waits.
  std::vector<std::string> gather(const std::string& text);
  /// Throws Error (user) in every process when their texts differ: "rank 1 differs from rank 0 in WHAT". Waits.
  void require_same(const std::string& text, const std::string& what);

  /// A replica of this process as a member of the replicas of all processes, in the order of ranks. `local` is the same replica in
  /// the group of this process and must outlive it; every process must have as many. Waits.
  virtual std::unique_ptr<Group> join(Group& local) = 0;

  /// Whether processes of one host sum in each other's memory, as they do when they can, or by MPI alone: for what join() is asked
  /// later, by all of them alike.
  virtual void share_memory(bool share) = 0;

  /// For a process that has been lost for 26 s when no operation here has noticed: this one computes, or waits for something else.
  /// Called once, on another thread; it may abort().
  virtual void when_lost(std::function<void(const Error&)> last_resort) = 0;

  /// Ends all processes at once, this one too, with this exit code.
  virtual void abort(int code) = 0;
};

/// Whether this build can train in several processes at all.
bool can_join_processes();

/// The processes among which this one was started; null when it was started alone. Once a process. Throws Error (user) when it was
/// started by MPI and this build has none.
///
/// Until all have come nobody can be named. When that has taken 28 s, `late` is called on another thread with an Error (run) that
/// says so; it may end this process.
std::unique_ptr<Processes> join_processes(std::function<void(const Error&)> late = {});

}  // namespace telar
