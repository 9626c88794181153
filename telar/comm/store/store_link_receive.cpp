#include <grpcpp/impl/codegen/sync_stream.h>

#include "telar/comm/frame_service.h"
#include "telar/comm/grpc_security.h"
#include "telar/comm/store/store_calls.h"
#include "telar/comm/store/store_link.h"

// The thread of a StoreLink that opens the stream and receives frames.

namespace telar {
namespace {

using namespace std::chrono_literals;

constexpr auto kBackoff = 100ms;
/// A network that damages frames on this many connections, one after the other, is no accident.
constexpr int kMostDamaged = 10;

}  // namespace

void StoreLink::wait_a_little(std::unique_lock<std::mutex>& lock) {
  changed_.wait_for(lock, kBackoff, [&] { return ending_ || stopped_; });
}

std::unique_ptr<StoreLink::Stream> StoreLink::open(grpc::ClientContext& context) {
  introduce(context, options_.security);
  context.AddMetadata(kJobKey, options_.job);
  context.AddMetadata(kMemberKey, std::to_string(options_.member));
  context.AddMetadata(kClientKey, std::to_string(client_));
  if (memory_) context.AddMetadata(kMemoryKey, memory_->where());
  context.AddMetadata(kChecksumsKey, payload_checksums_ ? "1" : "0");
  context.AddMetadata(kRoundKey, std::to_string(window_.first_round()));
  if (options_.shard != 0) {
    context.AddMetadata(kShardKey, std::to_string(options_.shard));
    context.AddMetadata(kGenerationKey, std::to_string(generation_));
  }
  if (options_.tenure != 0) context.AddMetadata(kTenureKey, std::to_string(options_.tenure));
  return open_frames(channel_, kExchangeMethod, context);
}

void StoreLink::connect_for_ever() {
  std::unique_lock lock(mutex_);
  while (!ending_ && !stopped_) {
    if (memory_ && std::exchange(another_, false) && !memory_->renew()) {
      refused_ = run_error("{} is served by another server, and there is no memory to share with it", who_);
      changed_.notify_all();
      return;
    }
    grpc::ClientContext context;
    const std::unique_ptr<Stream> stream = open(context);
    context_ = &context;
    lock.unlock();
    std::optional<Error> damaged;
    try {
      receive(*stream);
    } catch (const Error& error) {
      damaged = Error(error.kind(), fmt::format("{} sent {}", who_, error.what()));
    }
    lock.lock();
    if (damaged && damaged->kind() == Error::Kind::run) ++damaged_in_a_row_;
    if (stream_ != nullptr) away_since_ = StoreClock::now();
    take_answers();
    shared_ = traffic_.shared_memory = false;
    in_memory_ = 0;
    stream_ = nullptr;
    if (damaged) context.TryCancel();  // otherwise it has ended, and cancelling could hide why
    changed_.wait(lock, [&] { return !sending_; });
    lock.unlock();
    const grpc::Status status = stream->Finish();
    lock.lock();
    context_ = nullptr;
    last_status_ = status;
    if (!damaged && status.error_code() == grpc::StatusCode::DATA_LOSS)
      ++damaged_in_a_row_;  // on the way there
    if (ending_ || stopped_ || refused_) break;
    const bool may_retry =
        damaged_in_a_row_ < kMostDamaged && (!damaged || damaged->kind() == Error::Kind::run);
    if (!may_retry || (!damaged && !status.ok() && is_refusal(status))) {
      refused_ = damaged ? *damaged : error_of(status, who_);
      changed_.notify_all();
      return;
    }
    // A server ends the streams of an earlier generation of its chain, which is no loss.
    const bool moves = options_.shard != 0 && status.error_code() == grpc::StatusCode::CANCELLED;
    if ((std::exchange(was_connected_, false) && !moves) || damaged) {
      said_lost_ = true;
      std::string why = damaged ? damaged->what() : reason_of(status);
      if (why.empty()) why = "it ended the connection";
      lock.unlock();
      say(fmt::format("{} was lost: {}; trying again", who_, why));
      lock.lock();
    }
    wait_a_little(lock);
  }
}

void StoreLink::receive(Stream& stream) {
  grpc::ByteBuffer message;
  while (stream.Read(&message)) {
    const ReceivedFrame received(message);
    const FrameHeader& header = received.frame.header;
    if (header.kind == FrameKind::welcome) {
      welcome(received.frame);
      const std::lock_guard lock(mutex_);
      stream_ = &stream;
      was_connected_ = true;
      changed_.notify_all();  // a caller may wait to use shared memory
      sendable_.notify_all();
    } else {
      accept(received.frame);
    }
    {
      const std::lock_guard lock(mutex_);
      traffic_.received += received.bytes;
      if (header.kind == FrameKind::answer) damaged_in_a_row_ = 0;
    }
    message.Clear();
  }
}

void StoreLink::welcome(const Frame& frame) {
  StoreWindow::Welcomed welcomed;
  bool said_lost = false;
  {
    const std::lock_guard lock(mutex_);
    said_lost = std::exchange(said_lost_, false);
    welcomed = window_.welcome(frame);
    shared_ = traffic_.shared_memory = memory_ && welcomed.proof == memory_->proof();
    if (shared_) memory_->begin();
  }
  if (!welcomed.again || !(welcomed.restarted || said_lost)) return;
  if (!welcomed.restarted) return say(fmt::format("{} is reachable again", who_));
  std::string lost = fmt::format("{} updates", welcomed.lost);
  if (welcomed.unknown) lost = welcomed.lost > 0 ? "at least " + lost : "an unknown number of updates";
  say(fmt::format("{} is reachable again; it was restarted and has lost {} since its snapshot", who_, lost));
}

void StoreLink::accept(const Frame& frame) {
  std::span<float> into;
  {
    const std::lock_guard lock(mutex_);
    const std::optional<std::span<float>> place = window_.place_of(frame.header);
    if (!place) return;
    into = *place;
    copying_ = true;
  }
  frame.payload.copy_to(std::as_writable_bytes(into));
  const std::lock_guard lock(mutex_);
  copying_ = false;
  window_.note(frame.header);
  if (window_.all_answered()) changed_.notify_all();
}

}  // namespace telar
