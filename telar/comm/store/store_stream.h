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

// Frames on a gRPC stream. For sources of telar/comm/store alone.

namespace telar {

/// The method of the stream. Its messages are frames, raw: a protobuf would copy every float once more on each side.
inline constexpr char kExchangeMethod[] = "/telar.store.Transfers/Exchange";

/// What a client says when it opens the stream, beside token and version: metadata.
inline constexpr char kJobKey[] = "telar-job";
inline constexpr char kMemberKey[] = "telar-member";
inline constexpr char kClientKey[] = "telar-client";  ///< a random number of the StoreClient's own
inline constexpr char kMemoryKey[] = "telar-memory";  ///< StoreMemory::where(); optional
inline constexpr char kRoundKey[] = "telar-round";    ///< the first to which it will contribute

using StoreServerStream = grpc::ServerReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

/// The service with that one method.
class StoreTransfers : public grpc::Service {
 public:
  using Serve = std::function<grpc::Status(grpc::ServerContext&, StoreServerStream&)>;
  explicit StoreTransfers(Serve serve);
};

/// A message that was received, as frame: the frame views the message.
class ReceivedFrame {
 public:
  /// Throws Error (user) for a damaged one.
  explicit ReceivedFrame(const grpc::ByteBuffer& message);
  Frame frame;
  size_t bytes = 0;

 private:
  std::vector<grpc::Slice> slices_;
  std::vector<std::span<const std::byte>> parts_;
};

/// A frame in memory of its own, and where its payload lies in it.
struct OwnedFrame {
  grpc::Slice slice;
  std::span<std::byte> payload;
  OwnedFrame(const FrameHeader& header, std::span<const uint32_t> members, size_t payload_bytes);
  FrameHeader& header();
  grpc::ByteBuffer message() const { return {&slice, 1}; }
};

/// Serves one stream until it ends, is cancelled, or sends something that is no request (Error). Answers are written by a thread of
/// their own while the next requests come in; small ones that are ready at once, by the caller's.
void serve_stream(StoreServerStream& stream, grpc::ServerContext& context, StoreSession& session);

}  // namespace telar
