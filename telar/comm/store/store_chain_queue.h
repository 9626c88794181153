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

/// The frames for a neighbour, which a thread of its own writes. Thread-safe.
class ChainQueue final : public ChainSink {
 public:
  /// Returns false if the stream is broken.
  using Write = std::function<bool(const grpc::ByteBuffer&)>;
  /// `memory`: where the reader finds values without a copy; null: there is none.
  ChainQueue(Write write, bool payload_checksums, std::shared_ptr<ChainMemory> memory = nullptr);
  ~ChainQueue() override { close(); }
  ChainQueue(const ChainQueue&) = delete;
  ChainQueue& operator=(const ChainQueue&) = delete;

  void send(SharedFrame frame) override;
  std::shared_ptr<const std::byte> keep(std::span<const std::byte> values) override {
    return memory_ ? memory_->keep(values) : nullptr;
  }
  /// Waits while many bytes are to be written. Returns false if nothing is written any more.
  bool wait_for_room();
  /// Nothing is written afterwards.
  void close();

 private:
  void write_for_ever();
  grpc::ByteBuffer message_of(const SharedFrame& frame) const;

  const Write write_;
  const bool payload_checksums_;
  const std::shared_ptr<ChainMemory> memory_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<SharedFrame> frames_;
  size_t bytes_ = 0;
  bool closed_ = false;
  std::thread thread_;
};

}  // namespace telar
