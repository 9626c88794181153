#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "telar/comm/frame_service.h"
#include "telar/comm/store/store_session.h"

// Frames on a gRPC stream. Only for sources in telar/comm/store.

namespace telar {

/// The method of the stream. Its messages are raw frames; protobuf would copy every float once more on each
/// side.
inline constexpr char kExchangeMethod[] = "/telar.store.Transfers/Exchange";

/// A received message, parsed as a frame. The frame contains views of the message.
class ReceivedFrame {
 public:
  /// Throws like parse_frame.
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
  /// Sets the checksum. Call it last; `rest` is the part of the payload that is not in the slice.
  void seal(std::span<const std::byte> rest = {});
  grpc::ByteBuffer message() const { return {&slice, 1}; }
};

/// Serves one stream until it ends or is cancelled. Throws Error if the client sends something other than a
/// request. A separate thread writes the answers while further requests arrive; small answers that are ready
/// at once are written by the caller's thread. `payload_checksums`: of the answers.
void serve_stream(FrameServerStream& stream, grpc::ServerContext& context, StoreSession& session,
                  bool payload_checksums);

}  // namespace telar
