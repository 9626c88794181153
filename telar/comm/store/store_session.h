#pragma once

#include <atomic>
#include <memory>
#include <span>

#include "telar/comm/store/store_blocks.h"
#include "telar/comm/store/store_memory.h"

namespace telar {

/// What a server remembers of one StoreClient beyond its connections, so that what is sent again is not applied again.
struct StorePeer {
  std::atomic<uint64_t> handled{
      0};  ///< sequence of the last request whose push was applied, added, or dropped
};

/// The server's side of one member, whatever carries its frames: turns requests into answers. handle() is called by one thread in the
/// order in which requests come, complete() by one in the order of answers; they may be two.
class StoreSession {
 public:
  /// `cancelled`: the connection is gone, end all waiting.
  StoreSession(StoreBlocks& blocks, StoreMembers& members, StorePeer& peer, uint32_t member,
               StoreBlocks::Cancelled cancelled);

  struct Answer {
    FrameHeader header;             ///< with kPull: the floats of the range follow
    std::shared_ptr<StoreSum> sum;  ///< whose update is waited for; may be null
    size_t arena = 0;
    bool stopped = false;
  };
  /// Throws Error (user) for a request that makes no sense here.
  Answer handle(const Frame& request);
  /// Could complete() be called without waiting?
  bool ready(const Answer& answer);
  /// Waits for what the answer tells of, and copies the floats to `out` (as many as the range has) when it has some. False: stopped.
  bool complete(Answer& answer, std::span<float> out);
  /// Where who carries the frames enters what it holds of them.
  StoreAccount& account() { return blocks_.account(); }

 private:
  void push(const Frame& request, Answer& answer);

  StoreBlocks& blocks_;
  StoreMembers& members_;
  StorePeer& peer_;
  uint32_t member_;
  StoreBlocks::Cancelled cancelled_;
  Buffer scratch_;
  StoreAccount::Entry scratch_entry_;
};

/// Serves the requests of a member that shares memory, one after the other, until cancelled() (asked every 50 ms).
void serve_memory(StoreMemory& memory, StoreSession& session, const StoreBlocks::Cancelled& cancelled);

}  // namespace telar
