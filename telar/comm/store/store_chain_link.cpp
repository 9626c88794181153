#include "telar/comm/store/store_chain_link.h"

#include <utility>

#include "telar/comm/frame_service.h"
#include "telar/comm/grpc_security.h"
#include "telar/comm/store/store_calls.h"
#include "telar/comm/store/store_chain_queue.h"
#include "telar/comm/store/store_stream.h"
#include "telar/core/memory_limit.h"

namespace telar {
namespace {

using ClientStream = grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

constexpr std::chrono::milliseconds kPause{50};

/// Gives what arrives to the blocks, until the stream ends. `memory`: where the other side keeps values.
template <typename Stream>
void receive(Stream& stream, StoreBlocks& blocks, int64_t generation,
             const std::shared_ptr<ChainQueue>& queue, const ChainMemory* memory) {
  Buffer scratch;  // for values that come in several pieces
  grpc::ByteBuffer message;
  while (stream.Read(&message)) {
    ReceivedFrame received(message);
    const FrameHeader& header = received.frame.header;
    if ((header.flags & kShared) != 0) {
      if (memory == nullptr) throw user_error("values in shared memory, of which there is none");
      received.frame.payload = FramePayload({memory->values(static_cast<uint64_t>(header.version),
                                                            (header.end - header.begin) * sizeof(float))});
    } else if (header.kind == FrameKind::update && scratch.size() == 0) {
      scratch = Buffer(kBlockFloats * sizeof(float));
    }
    const StoreAccount::Entry in_hand(blocks.account(), received.bytes);
    // A hello of a connection that has ended would take the place of the next one's.
    if (header.kind == FrameKind::hello && !queue->wait_for_room()) return;
    blocks.receive(received.frame, generation, queue, scratch.as<float>());
    message.Clear();
  }
}

}  // namespace

ChainLink::ChainLink(StoreBlocks& blocks, ChainLinkOptions options)
    : blocks_(blocks),
      options_(std::move(options)),
      channel_(secure_channel(options_.address, options_.security, 4 * static_cast<int>(kLargestFrame))) {
  thread_ = std::thread([this] { connect_for_ever(); });
}

ChainLink::~ChainLink() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    if (context_ != nullptr) context_->TryCancel();
  }
  changed_.notify_all();
  thread_.join();
}

void ChainLink::connect_for_ever() {
  std::unique_lock lock(mutex_);
  std::string said;
  while (!ending_) {
    grpc::ClientContext context;
    context_ = &context;
    lock.unlock();
    const grpc::Status status = serve(context);
    const std::string why = status.ok() ? "" : reason_of(status);
    if (is_refusal(status) && why != said && options_.say)
      options_.say(fmt::format("The copy of shard {} at {} is not followed: {}", options_.shard - 1,
                               options_.address, why));
    said = why;
    lock.lock();
    context_ = nullptr;
    changed_.wait_for(lock, kPause, [this] { return ending_; });
  }
}

grpc::Status ChainLink::serve(grpc::ClientContext& context) {
  const bool checksums = !safe_from_damage(options_.address, options_.security);
  introduce(context, options_.security);
  context.AddMetadata(kJobKey, options_.job);
  context.AddMetadata(kShardKey, std::to_string(options_.shard));
  context.AddMetadata(kGenerationKey, std::to_string(options_.generation));
  context.AddMetadata(kSuccessorKey, std::to_string(options_.own));
  context.AddMetadata(kChecksumsKey, checksums ? "1" : "0");
  const auto memory =
      options_.shared_memory ? ChainMemory::make(blocks_.most_kept()) : std::shared_ptr<ChainMemory>();
  if (memory) context.AddMetadata(kMemoryKey, memory->where());
  const std::unique_ptr<ClientStream> stream = open_frames(channel_, kExchangeMethod, context);
  const auto queue = std::make_shared<ChainQueue>(
      [&stream](const grpc::ByteBuffer& message) { return stream->Write(message); }, checksums);
  blocks_.connected(options_.generation, queue);
  std::string damage;
  try {
    receive(*stream, blocks_, options_.generation, queue, memory.get());
  } catch (const std::exception& error) {
    damage = as_error(error).what();
  }
  if (!damage.empty()) context.TryCancel();  // otherwise it has ended, and cancelling could hide why
  queue->close();
  const grpc::Status status = stream->Finish();
  return damage.empty() ? status : grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, damage);
}

void serve_successor(FrameServerStream& stream, StoreBlocks& blocks, int64_t generation,
                     bool payload_checksums, const std::shared_ptr<ChainMemory>& memory) {
  const StoreAccount::Entry shared(blocks.account(), memory ? memory->bytes() : 0);
  const auto queue = std::make_shared<ChainQueue>(
      [&stream](const grpc::ByteBuffer& message) { return stream.Write(message); }, payload_checksums,
      memory);
  struct Close {
    ChainQueue& queue;
    ~Close() { queue.close(); }
  } const close{*queue};
  receive(stream, blocks, generation, queue, nullptr);
}

}  // namespace telar
