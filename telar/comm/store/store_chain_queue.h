#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "telar/comm/store/store_blocks.h"

// Frames between the servers of a chain. Only for sources in telar/comm/store.

namespace telar {

/// The frames for a neighbour, which a thread of its own writes. Thread-safe.
class ChainQueue final : public ChainSink {
 public:
  /// Returns false if the stream is broken.
  using Write = std::function<bool(const grpc::ByteBuffer&)>;
  ChainQueue(Write write, bool payload_checksums);
  ~ChainQueue() override { close(); }
  ChainQueue(const ChainQueue&) = delete;
  ChainQueue& operator=(const ChainQueue&) = delete;

  void send(SharedFrame frame) override;
  /// Waits while many bytes are to be written.
  void wait_for_room();
  /// Nothing is written afterwards.
  void close();

 private:
  void write_for_ever();

  const Write write_;
  const bool payload_checksums_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<SharedFrame> frames_;
  size_t bytes_ = 0;
  bool closed_ = false;
  std::thread thread_;
};

}  // namespace telar
