#include "telar/comm/store/store_chain_link.h"

#include <array>
#include <exception>
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

constexpr std::chrono::milliseconds kLookAgain{50};

/// What a neighbour sends, as it arrives on the stream and in the memory that the two share.
class Arrivals {
 public:
  /// `memory` may be null. `cancel` ends the stream.
  Arrivals(StoreBlocks& blocks, int64_t generation, std::shared_ptr<ChainQueue> queue,
           std::shared_ptr<ChainMemory> memory, ChainQueue::Side neighbour, std::function<void()> cancel)
      : blocks_(blocks),
        generation_(generation),
        queue_(std::move(queue)),
        memory_(std::move(memory)),
        in_order_(neighbour == ChainQueue::Side::predecessor),
        cancel_(std::move(cancel)) {}

  /// Until the stream ends. Throws Error for what the neighbour cannot have sent.
  template <typename Stream>
  void receive(Stream& stream) {
    std::jthread entries;
    if (memory_) entries = std::jthread([this] { take_entries(); });
    struct End {
      Arrivals& arrivals;
      ~End() { arrivals.end(); }
    } const end{*this};
    Buffer scratch;  // for values that come in several pieces
    grpc::ByteBuffer message;
    while (stream.Read(&message)) {
      ReceivedFrame received(message);
      const FrameHeader& header = received.frame.header;
      if (header.kind == FrameKind::update && scratch.size() == 0)
        scratch = Buffer(kBlockFloats * sizeof(float));
      const StoreAccount::Entry in_hand(blocks_.account(), received.bytes);
      // A hello of a connection that has ended would take the place of the next one's.
      if (header.kind == FrameKind::hello && !queue_->wait_for_room()) return;
      const auto place = static_cast<uint64_t>(header.version);
      if (!take(received.frame, place, scratch.as<float>(), Way::on_stream)) break;
      message.Clear();
    }
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  enum Way : uint8_t { on_stream, in_memory };

  ChainMemory::Ring& ring() const { return in_order_ ? memory_->updates() : memory_->helds(); }

  void take_entries() {
    try {
      while (looks_on(true)) {
        ChainEntry entry;
        if (!ring().take([&](const ChainEntry& next) { entry = next; })) {
          looks_on(false);
          ring().wait(kLookAgain);
          continue;
        }
        check_frame(entry.header, {});
        if (entry.header.kind != (in_order_ ? FrameKind::update : FrameKind::held))
          throw user_error("an entry of kind {} in shared memory", static_cast<int>(entry.header.kind));
        Frame frame{.header = entry.header, .members = {}, .payload = {}};
        if (in_order_) {
          const size_t bytes = (entry.header.end - entry.header.begin) * sizeof(float);
          frame.payload = FramePayload({memory_->values(static_cast<uint64_t>(entry.header.version), bytes)});
          queue_->begin_entries();
        }
        if (!take(frame, entry.place, {}, Way::in_memory)) return;
      }
    } catch (const std::exception&) {
      {
        const std::lock_guard lock(mutex_);
        failure_ = std::current_exception();
      }
      changed_.notify_all();
      cancel_();
    }
  }

  /// The predecessor's frames are taken in its order. Returns false if the stream has ended.
  bool take(const Frame& frame, uint64_t place, std::span<float> scratch, Way way) {
    if (in_order_) {
      std::unique_lock lock(mutex_);
      const Way other = way == Way::on_stream ? Way::in_memory : Way::on_stream;
      awaits_[way] = place;
      changed_.notify_all();
      // What is before it comes the other way, unless that has gone on to something later.
      changed_.wait(lock, [&] {
        return ended_ || failure_ || taken_ + 1 >= place || awaits_[other] > place ||
               (way == Way::on_stream && (!memory_ || (!looking_ && ring().empty())));
      });
      awaits_[way] = 0;
      if (ended_ || failure_) return false;
      if (taken_ + 1 != place) throw user_error("frame {} of a neighbour came after frame {}", place, taken_);
    }
    blocks_.receive(frame, generation_, queue_, scratch);
    if (in_order_) {
      const std::lock_guard lock(mutex_);
      ++taken_;
    }
    changed_.notify_all();
    return true;
  }

  /// Whether an entry may have been taken from the ring that is not in taken_ yet. Returns false if the
  /// stream has ended.
  bool looks_on(bool looking) {
    {
      const std::lock_guard lock(mutex_);
      looking_ = looking;
      if (looking) return !ended_;
    }
    changed_.notify_all();
    return true;
  }

  void end() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    if (memory_) ring().wake();
  }

  StoreBlocks& blocks_;
  const int64_t generation_;
  const std::shared_ptr<ChainQueue> queue_;
  const std::shared_ptr<ChainMemory> memory_;
  const bool in_order_;
  const std::function<void()> cancel_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t taken_ = 0;                   ///< frames of the predecessor
  std::array<uint64_t, 2> awaits_ = {};  ///< of each way, the place for which it waits; 0: it does not
  bool looking_ = false;
  bool ended_ = false;
  std::exception_ptr failure_;
};

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
      [&stream](const grpc::ByteBuffer& message) { return stream->Write(message); }, checksums, memory,
      ChainQueue::Side::successor);
  blocks_.connected(options_.generation, queue);
  std::string damage;
  try {
    Arrivals(blocks_, options_.generation, queue, memory, ChainQueue::Side::predecessor, [&context] {
      context.TryCancel();
    }).receive(*stream);
  } catch (const std::exception& error) {
    damage = as_error(error).what();
  }
  if (!damage.empty()) context.TryCancel();  // otherwise it has ended, and cancelling could hide why
  queue->close();
  const grpc::Status status = stream->Finish();
  return damage.empty() ? status : grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, damage);
}

void serve_successor(grpc::ServerContext& context, FrameServerStream& stream, StoreBlocks& blocks,
                     int64_t generation, bool payload_checksums, const std::shared_ptr<ChainMemory>& memory) {
  const StoreAccount::Entry shared(blocks.account(), memory ? memory->bytes() : 0);
  const auto queue = std::make_shared<ChainQueue>(
      [&stream](const grpc::ByteBuffer& message) { return stream.Write(message); }, payload_checksums, memory,
      ChainQueue::Side::predecessor);
  struct Close {
    ChainQueue& queue;
    ~Close() { queue.close(); }
  } const close{*queue};
  Arrivals(blocks, generation, queue, memory, ChainQueue::Side::successor, [&context] {
    context.TryCancel();
  }).receive(stream);
}

}  // namespace telar
