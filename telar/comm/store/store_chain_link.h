#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "telar/comm/network.h"
#include "telar/comm/store/chain_memory.h"
#include "telar/comm/store/store_blocks.h"
#include "telar/comm/store/store_stream.h"

// The stream between two neighbours of a chain. Only for sources in telar/comm/store.

namespace telar {

/// Where a server's predecessor is, and what it calls itself there.
struct ChainLinkOptions {
  std::string address;  ///< of the predecessor
  Security security;
  std::string job;
  uint32_t shard = 0;
  int64_t generation = 0;
  StoreServerId own = 0;
  bool shared_memory = true;                    ///< with a predecessor on this host
  std::function<void(const std::string&)> say;  ///< may be empty
};

/// The connection of a server to its predecessor in one generation of a chain, made again when it breaks. A
/// thread of its own opens it, and gives what arrives to the blocks.
class ChainLink {
 public:
  ChainLink(StoreBlocks& blocks, ChainLinkOptions options);
  ~ChainLink();
  ChainLink(const ChainLink&) = delete;
  ChainLink& operator=(const ChainLink&) = delete;

  /// Whether there is a connection now, even if the predecessor refuses this server's stream.
  bool connected() const { return channel_->GetState(false) == GRPC_CHANNEL_READY; }

 private:
  void connect_for_ever();
  grpc::Status serve(grpc::ClientContext& context);

  StoreBlocks& blocks_;
  const ChainLinkOptions options_;
  const std::shared_ptr<grpc::Channel> channel_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  grpc::ClientContext* context_ = nullptr;
  std::thread thread_;
};

/// The predecessor's side: serves the stream of its successor until it ends or is cancelled. `memory`: what
/// they share; may be null. Throws Error if the successor sends what it cannot mean.
void serve_successor(grpc::ServerContext& context, FrameServerStream& stream, StoreBlocks& blocks,
                     int64_t generation, bool payload_checksums, const std::shared_ptr<ChainMemory>& memory);

}  // namespace telar
