#include "telar/comm/frame_service.h"

#include <utility>

namespace telar {

FrameService::FrameService(const char* method, Serve serve) {
  using Handler = grpc::internal::BidiStreamingHandler<FrameService, grpc::ByteBuffer, grpc::ByteBuffer>;
  auto handler = std::make_unique<Handler>(
      [serve = std::move(serve)](FrameService*, grpc::ServerContext* context, FrameServerStream* stream) {
        return serve(*context, *stream);
      },
      this);
  // gRPC takes ownership of both.
  AddMethod(std::make_unique<grpc::internal::RpcServiceMethod>(
                method, grpc::internal::RpcMethod::BIDI_STREAMING, handler.release())
                .release());
}

std::unique_ptr<FrameClientStream> open_frames(const std::shared_ptr<grpc::Channel>& channel,
                                               const char* method, grpc::ClientContext& context) {
  const grpc::internal::RpcMethod rpc(method, grpc::internal::RpcMethod::BIDI_STREAMING, channel);
  return std::unique_ptr<FrameClientStream>(
      grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer, grpc::ByteBuffer>::Create(channel.get(),
                                                                                            rpc, &context));
}

}  // namespace telar
