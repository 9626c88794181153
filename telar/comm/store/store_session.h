#pragma once

#include <atomic>
#include <memory>
#include <span>

#include "telar/comm/store/store_blocks.h"
#include "telar/comm/store/store_memory.h"

namespace telar {

/// What a server remembers of one StoreClient across connections, so that repeated requests are not applied
/// again.
struct StorePeer {
  std::atomic<uint64_t> handled{
      0};  ///< sequence of the last request whose push was applied, added or dropped
};

/// The server's side of one member, independent of the transport: turns requests into answers. One thread
/// calls handle(), in the order of requests, and one calls complete(), in the order of answers; they may be
/// different threads.
class StoreSession {
 public:
  /// `cancelled` returns true when the connection is gone and all waits must end.
  /// `generation`: of the chain, as the client knows it; 0: without copies.
  StoreSession(StoreBlocks& blocks, StoreMembers& members, StorePeer& peer, uint32_t member,
               StoreBlocks::Cancelled cancelled, int64_t generation = 0);

  struct Answer {
    FrameHeader header;                     ///< with kPull: the floats of the range follow
    std::shared_ptr<StoreSum> sum;          ///< the update to wait for; may be null
    std::shared_ptr<StoreCopying> copying;  ///< that all copies have it is waited for, too; may be null
    size_t arena = 0;
    bool stopped = false;
  };
  /// Throws Error (user) for a request that is not valid here.
  Answer handle(const Frame& request);
  /// Whether complete() would return without waiting.
  bool ready(const Answer& answer);
  /// Waits until the answer's update is done. If the answer has floats, copies them to `out`, which has the
  /// size of the range. Returns false if stopped.
  bool complete(Answer& answer, std::span<float> out);
  /// Where the transports account for the frames that they hold.
  StoreAccount& account() { return blocks_.account(); }

 private:
  void push(const Frame& request, Answer& answer);
  bool repeated(const FrameHeader& header, Answer& answer);

  StoreBlocks& blocks_;
  StoreMembers& members_;
  StorePeer& peer_;
  uint32_t member_;
  StoreBlocks::Cancelled cancelled_;
  int64_t generation_;
  Buffer scratch_;
  StoreAccount::Entry scratch_entry_;
};

/// Serves the requests of a member that shares memory, one after the other, until cancelled() returns true
/// (called every 50 ms).
void serve_memory(StoreMemory& memory, StoreSession& session, const StoreBlocks::Cancelled& cancelled);

}  // namespace telar
