#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "telar/comm/group.h"
#include "telar/comm/transfer.h"
#include "telar/core/error.h"

namespace telar {

/// The processes that train one job together: started by mpirun or srun, or joined (comm/peers). All call the
/// same operations in the same order, except abort(). All run the same job on the same number of replicas;
/// only rank 0 prints, writes and saves.
///
/// Every process is checked once a second, whatever it is doing. When one dies or does not answer for 20 s,
/// the waits of the others end with an Error (run) that names it.
class Processes {
 public:
  virtual ~Processes() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The number of processes on this host.
  virtual int on_this_host() const = 0;
  /// The index of this process among those of this host, from 0, in rank order.
  virtual int index_on_this_host() const = 0;

  /// Replaces the bytes by those of rank `from`. The number of bytes is the same everywhere. Waits.
  virtual void broadcast(std::span<std::byte> bytes, int from = 0) = 0;
  /// Returns the lowest value over all processes. Waits.
  virtual int lowest(int value) = 0;

  /// Replaces each value by the lowest of all processes, element by element. The number of values is the same
  /// everywhere. Waits.
  virtual void lowest(std::span<float> values) = 0;
  /// Waits for all processes. The caller sleeps and polls every few milliseconds, so it leaves the cores to
  /// others.
  virtual void sleep_until_all_come() = 0;
  /// Replaces the values by their sums over the processes, with the library's own blocking call, if they
  /// communicate by a library that has one. It does not notice a lost process. For measurements.
  virtual void library_all_reduce(std::span<float> values) = 0;

  /// Replaces the text by that of rank `from`; lengths may differ. Waits.
  void broadcast(std::string& text, int from = 0);
  /// Returns true everywhere if `value` is true in any process. Waits.
  bool any(bool value);
  /// Returns the first text in rank order that is not empty. Waits.
  std::string first_text(std::string text);
  /// Returns the texts of all processes, in rank order. Waits.
  std::vector<std::string> gather(const std::string& text);
  /// Throws Error (user) in every process if the texts differ: "rank 1 differs from rank 0 in WHAT". Waits.
  void require_same(const std::string& text, const std::string& what);

  /// Makes a replica of this process a member of the group of all replicas of all processes, in rank order.
  /// `local` is the same replica in this process's own group and must outlive the result. Every process must
  /// have the same number of replicas. Waits.
  virtual std::unique_ptr<Group> join(Group& local) = 0;

  /// The same for a group of replicas of some processes, whose ranks are given in ascending order. Only they
  /// call it, each for as many replicas. `channel`: a number from 1, below 10,000, that groups with a process
  /// in common do not share.
  virtual std::unique_ptr<Group> join_some(Group& local, const std::vector<int>& ranks, int channel) = 0;

  /// Messages between this process and another, which makes the counterpart with the same `tag` and number of
  /// bytes. Messages with equal tag between the same two processes pass in the order in which they start. The
  /// bytes must outlive the result. Throws Error (user) if they are too many for one message.
  virtual std::unique_ptr<Transfer> message_to(int rank, int tag, std::span<const std::byte> bytes) = 0;
  virtual std::unique_ptr<Transfer> message_from(int rank, int tag, std::span<std::byte> bytes) = 0;

  /// Whether processes of one host sum in each other's memory (the default, where possible) or by messages.
  /// Applies to later calls of join(); all processes must make the same choice.
  virtual void share_memory(bool share) = 0;

  /// `last_resort` is called once, on another thread, when a process has been lost for 26 s and no operation
  /// here has noticed, because this process computes or waits for something else. It may abort().
  virtual void when_lost(std::function<void(const Error&)> last_resort) = 0;

  /// Throws Error (run) that names another process if it is known to have ended, or has been silent for too
  /// long.
  virtual void check() const = 0;
  bool lost() const;

  /// Ends all processes at once, including this one, with this exit code. `why`: a sentence for the others.
  virtual void abort(int code, const std::string& why) = 0;
};

/// Whether this build supports training in several processes.
bool can_join_processes();

/// Returns the processes among which this one was started; null if it was started alone. Call once per
/// process. Throws Error (user) if it was started as one of several and cannot join them: this build has no
/// MPI, or the launcher belongs to another MPI.
///
/// Until all processes have joined, a missing one cannot be named. If joining takes 28 s, `late` is called on
/// another thread with an Error (run) that reports so; it may end this process.
std::unique_ptr<Processes> join_processes(std::function<void(const Error&)> late = {});

/// Throws Error (user) with `why` if a launcher's variables say that it has started several processes: each
/// would train on its own.
void require_started_alone(const std::string& why);

}  // namespace telar
