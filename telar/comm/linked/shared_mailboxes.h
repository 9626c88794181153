#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "telar/comm/linked/collectives.h"
#include "telar/comm/linked/shared_regions.h"
#include "telar/comm/transfer.h"

namespace telar {

/// Messages between processes of one host, in memory that both see: the sender copies a message into a box of
/// its own, the receiver out of it. There is a box for each pair of processes and tag, with room for one
/// message.
class SharedMailboxes {
 public:
  /// Null, in all processes, if they cannot see each other's memory. All processes of the circle call it and
  /// are on one host. Waits.
  static std::unique_ptr<SharedMailboxes> make(const Circle& circle);
  ~SharedMailboxes();
  SharedMailboxes(const SharedMailboxes&) = delete;
  SharedMailboxes& operator=(const SharedMailboxes&) = delete;

  /// Whether there is a box for messages of this tag between this process and one of that rank. The answer is
  /// the same in both.
  bool serve(int rank, int tag) const;

  /// As Processes::message_to and message_from; start() of the former waits until the message before it has
  /// been received. Throw Error (run) if there is no memory for a message.
  std::unique_ptr<Transfer> to(int rank, int tag, std::span<const std::byte> bytes);
  std::unique_ptr<Transfer> from(int rank, int tag, std::span<std::byte> bytes);

 private:
  struct Box;
  /// The memory of a box, as this process sees it.
  struct Place {
    uint64_t offset = 0;  ///< in the file
    std::span<std::byte> memory;
    uint64_t started = 0;  ///< messages, by this process
  };
  class Outgoing;
  class Incoming;

  SharedMailboxes(const Circle& circle, std::unique_ptr<SharedRegions> regions);
  /// Makes the own file and opens those of the others. Returns whether all processes did.
  bool open_files(const Circle& circle);
  size_t member(int rank) const;
  Box& box(size_t from, size_t to, int tag) const;
  /// Gives a box of this process, which must be empty, room for a message.
  void enlarge(Box& box, Place& place, size_t bytes);
  static void map(int file, Place& place, uint64_t offset, uint64_t bytes);

  const Watch& watch_;
  std::vector<int> ranks_;
  size_t own_;  ///< index of this process among ranks_
  std::unique_ptr<SharedRegions> regions_;
  std::vector<int> files_;  ///< with the messages that a member sends
  std::mutex mutex_;        ///< guards the members below; a Place is used by the thread of its messages
  uint64_t end_ = 0;        ///< of the own file
  std::map<std::pair<size_t, int>, Place> places_to_;  ///< by member and tag
  std::map<std::pair<size_t, int>, Place> places_from_;
};

}  // namespace telar
