#include <grpcpp/impl/codegen/sync_stream.h>

#include "telar/comm/grpc_security.h"
#include "telar/comm/store/store.pb.h"
#include "telar/comm/store/store_link.h"

// The thread of a StoreLink that opens the stream and receives frames.

namespace telar {
namespace {

using namespace std::chrono_literals;

constexpr auto kBackoff = 100ms;

}  // namespace

int64_t StoreLink::first_round() const {
  for (const Sent& sent : window_)
    if ((sent.request.header.flags & kRound) != 0) return sent.request.header.round;
  return finished_round_ + 1;
}

void StoreLink::wait_a_little(std::unique_lock<std::mutex>& lock) {
  changed_.wait_for(lock, kBackoff, [&] { return ending_ || stopped_; });
}

std::unique_ptr<StoreLink::Stream> StoreLink::open(grpc::ClientContext& context) {
  introduce(context, options_.security);
  context.AddMetadata(kJobKey, options_.job);
  context.AddMetadata(kMemberKey, std::to_string(options_.member));
  context.AddMetadata(kClientKey, std::to_string(client_));
  if (memory_) context.AddMetadata(kMemoryKey, memory_->where());
  context.AddMetadata(kRoundKey, std::to_string(first_round()));
  const grpc::internal::RpcMethod method(kExchangeMethod, grpc::internal::RpcMethod::BIDI_STREAMING,
                                         channel_);
  return std::unique_ptr<Stream>(
      grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer, grpc::ByteBuffer>::Create(
          channel_.get(), method, &context));
}

void StoreLink::connect_for_ever() {
  std::unique_lock lock(mutex_);
  while (!ending_ && !stopped_) {
    grpc::ClientContext context;
    const std::unique_ptr<Stream> stream = open(context);
    context_ = &context;
    lock.unlock();
    std::optional<Error> damaged;
    try {
      receive(*stream);
    } catch (const Error& error) {
      damaged = user_error("{} sent {}", who_, error.what());
    }
    lock.lock();
    if (stream_ != nullptr) away_since_ = StoreClock::now();
    take_answers();
    shared_ = traffic_.shared_memory = false;
    in_memory_ = 0;
    stream_ = nullptr;
    context.TryCancel();
    changed_.wait(lock, [&] { return !sending_; });
    lock.unlock();
    const grpc::Status status = stream->Finish();
    lock.lock();
    context_ = nullptr;
    last_status_ = status;
    if (ending_ || stopped_) break;
    if (damaged || (!status.ok() && is_refusal(status))) {
      refused_ = damaged ? *damaged : error_of(status, who_);
      changed_.notify_all();
      return;
    }
    if (std::exchange(was_connected_, false)) {
      lock.unlock();
      say(fmt::format("{} was lost: {}; trying again", who_,
                      status.error_message().empty() ? "it ended the connection" : status.error_message()));
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
    } else if (header.kind == FrameKind::answer) {
      accept(received.frame);
    } else {
      throw user_error("a request, which only clients may send");
    }
    {
      const std::lock_guard lock(mutex_);
      traffic_.received += received.bytes;
    }
    message.Clear();
  }
}

void StoreLink::welcome(const Frame& frame) {
  std::string bytes(frame.payload.bytes(), ' ');
  frame.payload.copy_to(std::as_writable_bytes(std::span(bytes)));
  store::Welcome message;
  if (!message.ParseFromString(bytes) || message.begins_size() != message.versions_size())
    throw user_error("a damaged welcome");
  int64_t lost = 0;
  bool again = false;
  {
    const std::lock_guard lock(mutex_);
    again = server_start_ != 0;
    if (again && server_start_ != message.start()) {
      std::map<size_t, int64_t> restored;
      for (int i = 0; i < message.begins_size(); ++i) restored[message.begins(i)] = message.versions(i);
      for (auto& [begin, version] : versions_) {
        const auto after = restored.upper_bound(begin);
        const int64_t had = after == restored.begin() ? 0 : std::prev(after)->second;
        lost = std::max(lost, version - had);
        version = std::min(version, had);
      }
      report_.lost_updates += lost;
      // The sum of a round may have to be computed again.
      next_ = 0;
    } else {
      next_ = 0;
      while (next_ < window_.size() && window_[next_].answered) ++next_;
    }
    server_start_ = message.start();
    shared_ = traffic_.shared_memory = memory_ && message.proof() == memory_->proof();
    if (shared_) memory_->begin();
  }
  if (again)
    say(lost > 0 ? fmt::format("{} is reachable again; it has lost {} updates", who_, lost)
                 : fmt::format("{} is reachable again", who_));
}

void StoreLink::accept(const Frame& frame) {
  const FrameHeader& header = frame.header;
  std::span<float> into;
  {
    const std::lock_guard lock(mutex_);
    if (header.sequence < first_sequence_) return;  // the request was sent twice
    if (header.sequence - first_sequence_ >= window_.size()) throw user_error("an answer without a request");
    const StoreRequest& request = window_[header.sequence - first_sequence_].request;
    if (request.header.begin != header.begin || request.header.end != header.end)
      throw user_error("an answer for another range than requested");
    into = request.into;
    if ((header.flags & kPull) != 0 && into.size() != header.end - header.begin)
      throw user_error("floats that were not requested");
    copying_ = true;
  }
  if ((header.flags & kPull) != 0) frame.payload.copy_to(std::as_writable_bytes(into));
  const std::lock_guard lock(mutex_);
  copying_ = false;
  note(header);
}

/// Records an answer whose floats have been copied.
void StoreLink::note(const FrameHeader& header) {
  Sent& sent = window_[header.sequence - first_sequence_];
  const bool exchange = sent.request.header.kind == FrameKind::exchange;
  if (exchange && (header.flags & kPull) != 0) versions_[header.begin] = header.version;
  if (std::exchange(sent.answered, true)) return;
  report_.finite &= (header.flags & kNotFinite) == 0;
  report_.late |= (header.flags & kLate) != 0;
  if ((sent.request.header.flags & kPush) != 0) {
    const auto floats = static_cast<double>(header.end - header.begin);
    pushed_floats_ += floats;
    staleness_floats_ += floats * header.staleness;
  }
  if (--unanswered_ == 0) changed_.notify_all();
}

}  // namespace telar
