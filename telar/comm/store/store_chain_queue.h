#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "telar/comm/store/chain_memory.h"
#include "telar/comm/store/store_blocks.h"

// Frames between the servers of a chain. Only for sources in telar/comm/store.

namespace telar {

/// The frames for a neighbour: through the memory that the two share where they fit (ChainEntry), the others
/// by a thread of its own, which writes them to the stream. Thread-safe.
class ChainQueue final : public ChainSink {
 public:
  /// Returns false if the stream is broken.
  using Write = std::function<bool(const grpc::ByteBuffer&)>;
  enum class Side : uint8_t { predecessor, successor };
  /// `memory` may be null. The predecessor's entries begin at once, the successor's after begin_entries():
  /// the predecessor may not have found the memory.
  ChainQueue(Write write, bool payload_checksums, std::shared_ptr<ChainMemory> memory, Side side);
  ~ChainQueue() override { close(); }
  ChainQueue(const ChainQueue&) = delete;
  ChainQueue& operator=(const ChainQueue&) = delete;

  void send(SharedFrame frame) override;
  std::shared_ptr<const std::byte> keep(std::span<const std::byte> values) override {
    return memory_ && side_ == Side::predecessor ? memory_->keep(values) : nullptr;
  }
  void begin_entries();
  /// Waits while many bytes are to be written. Returns false if nothing is written any more.
  bool wait_for_room();
  /// Nothing is written afterwards.
  void close();

 private:
  struct Queued {
    uint64_t place;
    SharedFrame frame;
  };

  void write_for_ever();
  bool put_entry(const SharedFrame& frame, uint64_t place);
  grpc::ByteBuffer message_of(const Queued& queued) const;

  const Write write_;
  const bool payload_checksums_;
  const std::shared_ptr<ChainMemory> memory_;
  const Side side_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool entries_;  ///< are read by the other side
  uint64_t places_ = 0;
  std::deque<Queued> frames_;
  size_t bytes_ = 0;
  bool closed_ = false;
  std::thread thread_;
};

}  // namespace telar
