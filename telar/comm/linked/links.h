#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "telar/comm/transfer.h"

namespace telar {

/// What a message is for. Messages of different lanes never meet.
enum class Lane : uint8_t { all, watch, stages, buckets, values, members };
inline constexpr int kLanes = 6;

/// How the processes of a run reach each other: by MPI (comm/mpi), or over connections of their own
/// (comm/peers). LinkedProcesses makes everything else of these few operations. Any thread may call them.
class ProcessLinks {
 public:
  virtual ~ProcessLinks() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The process of a rank, in messages: "rank 2 (host:pid)".
  virtual std::string name(int rank) const = 0;
  /// What a process has sent last, in words: "its last message, 0.3 s before, was of a sum of gradients"; empty
  /// if that is not known.
  virtual std::string last_of(int /*rank*/) const { return {}; }
  /// A text that is the same for processes that may share memory and the cores of one host.
  virtual std::string host(int rank) const = 0;

  /// A message to or from another process, which makes the counterpart with the same lane, `tag` (0 or more)
  /// and number of bytes. Messages of equal lane and tag between the same two processes pass in the order in
  /// which they start. The bytes must outlive the result.
  virtual std::unique_ptr<Transfer> to(int rank, Lane lane, int tag, std::span<const std::byte> bytes) = 0;
  virtual std::unique_ptr<Transfer> from(int rank, Lane lane, int tag, std::span<std::byte> bytes) = 0;

  /// Throws Error (run) if it is known that a process has ended or cannot be reached.
  virtual void check() const = 0;
  /// Called by a thread that has waited for a while: leaves the core to others, for a millisecond at most.
  virtual void rest() const = 0;
  /// The library's own blocking sum, for measurements.
  virtual void all_reduce(std::span<float> values) = 0;
  /// Tells the others, where they can be told, that this process takes part in nothing any more: who waits
  /// for it fails.
  virtual void leave() {}
  /// Ends all processes at once, including this one, with this exit code. `why`: a sentence for the others.
  [[noreturn]] virtual void abort(int code, const std::string& why) = 0;
};

/// Links that stay when one of the processes is lost. Those who are left make new links over them, a
/// *generation*: its messages never meet those of another one.
class ElasticLinks : public ProcessLinks {
 public:
  /// Links of some of the processes, whose ranks here are given in ascending order, with this one. They keep
  /// the names that they have here. `generation`: from 1, another one each time. `look` is called by every
  /// check(), from any thread, to throw. This object must outlive the result.
  virtual std::unique_ptr<ProcessLinks> generation(uint16_t generation, std::vector<int> ranks,
                                                   std::function<void()> look) = 0;
  /// Forgets what was sent and not received in earlier generations, and what will be.
  virtual void drop_before(uint16_t generation) = 0;
  /// Why a process cannot be reached, as a sentence; empty: it can.
  virtual std::string why_lost(int rank) const = 0;

  /// Whether a process has said its last words: it was not lost, but has ended, or failed.
  virtual bool has_left(int rank) const = 0;

  // A rank that is lost may become that of another process, which connects to all.

  /// In the process that leads: lets others take places, at address(). They are told `description`.
  virtual void admit(const std::string& description) = 0;
  /// The ranks of the generation that is in use. The places of others may be taken. Every process says so.
  virtual void set_members(const std::vector<int>& ranks) = 0;
  /// The ranks that have become those of other processes since the last call.
  virtual std::vector<int> newcomers() = 0;
  /// Whether this process has taken a place.
  virtual bool has_taken_place() const = 0;
  /// The rank of the process that led when this one came.
  virtual int leader() const = 0;
  /// Where this process listens, HOST:PORT.
  virtual std::string address() const = 0;
};

/// Starts a message that is sent once.
inline std::unique_ptr<Transfer> started(std::unique_ptr<Transfer> transfer) {
  transfer->start();
  return transfer;
}

}  // namespace telar
