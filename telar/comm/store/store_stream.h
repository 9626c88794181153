#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/method_handler.h>
#include <grpcpp/impl/codegen/rpc_service_method.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "telar/comm/store/store_session.h"

// Frames on a gRPC stream. Only for sources in telar/comm/store.

namespace telar {

/// The method of the stream. Its messages are raw frames; protobuf would copy every float once more on each
/// side.
inline constexpr char kExchangeMethod[] = "/telar.store.Transfers/Exchange";

/// Metadata that a client sends when it opens the stream, in addition to token and version.
inline constexpr char kJobKey[] = "telar-job";
inline constexpr char kMemberKey[] = "telar-member";
inline constexpr char kClientKey[] = "telar-client";  ///< a random number of this StoreClient
inline constexpr char kMemoryKey[] = "telar-memory";  ///< StoreMemory::where(); optional
inline constexpr char kRoundKey[] = "telar-round";    ///< first round to which it will contribute

using StoreServerStream = grpc::ServerReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

/// The service that consists of this method.
class StoreTransfers : public grpc::Service {
 public:
  using Serve = std::function<grpc::Status(grpc::ServerContext&, StoreServerStream&)>;
  explicit StoreTransfers(Serve serve);
};

/// A received message, parsed as a frame. The frame contains views of the message.
class ReceivedFrame {
 public:
  /// Throws Error (user) if the frame is damaged.
  explicit ReceivedFrame(const grpc::ByteBuffer& message);
  Frame frame;
  size_t bytes = 0;

 private:
  std::vector<grpc::Slice> slices_;
  std::vector<std::span<const std::byte>> parts_;
};

/// A frame in newly allocated memory, and the place of its payload in it.
struct OwnedFrame {
  grpc::Slice slice;
  std::span<std::byte> payload;
  OwnedFrame(const FrameHeader& header, std::span<const uint32_t> members, size_t payload_bytes);
  FrameHeader& header();
  grpc::ByteBuffer message() const { return {&slice, 1}; }
};

/// Serves one stream until it ends or is cancelled. Throws Error if the client sends something other than a
/// request. A separate thread writes the answers while further requests arrive; small answers that are ready
/// at once are written by the caller's thread.
void serve_stream(StoreServerStream& stream, grpc::ServerContext& context, StoreSession& session);

}  // namespace telar
