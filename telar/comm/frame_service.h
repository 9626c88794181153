#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/method_handler.h>
#include <grpcpp/impl/codegen/rpc_service_method.h>

#include <functional>
#include <memory>

// Streams of raw messages, for what protobuf would copy once more on each side. Only for sources in
// telar/comm.

namespace telar {

using FrameServerStream = grpc::ServerReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;
using FrameClientStream = grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

/// The service that consists of one method, "/package.Service/Method".
class FrameService : public grpc::Service {
 public:
  using Serve = std::function<grpc::Status(grpc::ServerContext&, FrameServerStream&)>;
  FrameService(const char* method, Serve serve);
};

/// The client's side of its method.
std::unique_ptr<FrameClientStream> open_frames(const std::shared_ptr<grpc::Channel>& channel,
                                               const char* method, grpc::ClientContext& context);

}  // namespace telar
