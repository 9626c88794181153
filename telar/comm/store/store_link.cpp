#include "telar/comm/store/store_link.h"

#include <cstring>

#include "telar/comm/grpc_security.h"
#include "telar/comm/store/random_id.h"
#include "telar/io/payload.h"

namespace telar {
namespace {

using namespace std::chrono_literals;

/// Requests up to this size are sent by the caller, without waking the sending thread.
constexpr size_t kSmallRequest = size_t{64} << 10;

/// A slice of the payload in place, without a copy.
grpc::Slice view_of(const StoreRequest& request) {
  using Keeper = std::shared_ptr<const void>;
  // gRPC releases it with the last reference to the bytes.
  auto keeper = std::make_unique<Keeper>(request.keeper);
  return {const_cast<float*>(request.from.data()), request.from.size_bytes(),
          [](void* held) { std::unique_ptr<Keeper>(static_cast<Keeper*>(held)).reset(); }, keeper.release()};
}

grpc::ByteBuffer message_of(const StoreRequest& request, bool payload_checksums) {
  FrameHeader header = request.header;
  if (!payload_checksums) header.flags |= kPlainPayload;
  if (request.payload != 0) {
    const std::vector<std::byte> encoded = numbered_payload(request.payload).encode(request.from);
    if (!encoded.empty()) {
      header.arena = request.payload;
      OwnedFrame frame(header, request.members, encoded.size());
      std::memcpy(frame.payload.data(), encoded.data(), encoded.size());
      frame.seal();
      return frame.message();
    }
  }
  if (request.from.empty() || !request.keeper) {
    OwnedFrame frame(header, request.members, request.from.size_bytes());
    if (!request.from.empty())
      std::memcpy(frame.payload.data(), request.from.data(), request.from.size_bytes());
    frame.seal();
    return frame.message();
  }
  OwnedFrame head(header, request.members, 0);
  head.seal(std::as_bytes(request.from));
  const std::array<grpc::Slice, 2> slices{head.slice, view_of(request)};
  return {slices.data(), slices.size()};
}

}  // namespace

StoreLink::StoreLink(const StoreClientOptions& options, std::string who,
                     std::shared_ptr<grpc::Channel> channel, std::shared_ptr<StoreMemory> memory)
    : options_(options),
      who_(std::move(who)),
      client_(random_id()),
      memory_(std::move(memory)),
      channel_(std::move(channel)),
      generation_(options.generation),
      payload_checksums_(
          options.payload_checksums.value_or(!safe_from_damage(options.address, options.security))) {
  stop_.emplace(options_.stop, [this] {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    if (context_ != nullptr) context_->TryCancel();
    changed_.notify_all();
    sendable_.notify_all();
  });
  receiver_ = std::thread([this] { connect_for_ever(); });
  sender_ = std::thread([this] { send_for_ever(); });
}

StoreLink::~StoreLink() {
  stop_.reset();
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    if (context_ != nullptr) context_->TryCancel();
  }
  changed_.notify_all();
  sendable_.notify_all();
  receiver_.join();
  sender_.join();
}

void StoreLink::move(const StoreHead& head, std::shared_ptr<grpc::Channel> channel) {
  const std::lock_guard lock(mutex_);
  another_ |= channel != channel_;
  channel_ = std::move(channel);
  generation_ = head.generation;
  payload_checksums_ =
      options_.payload_checksums.value_or(!safe_from_damage(head.address, options_.security));
  if (context_ != nullptr) context_->TryCancel();
}

void StoreLink::say(const std::string& sentence) const {
  if (options_.say) options_.say(sentence);
}

StoreClient::Traffic StoreLink::traffic() const {
  const std::lock_guard lock(mutex_);
  return traffic_;
}

double StoreLink::seconds_away() const {
  const std::lock_guard lock(mutex_);
  if (stream_ != nullptr) return 0;
  return std::chrono::duration<double>(StoreClock::now() - away_since_).count();
}

StoreLosses StoreLink::losses() const {
  const std::lock_guard lock(mutex_);
  return window_.losses();
}

std::optional<Error> StoreLink::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_locked();
}

std::optional<Error> StoreLink::failure_locked() const {
  if (refused_) return refused_;
  const auto patience = std::chrono::duration<double>(options_.patience_seconds);
  if (stream_ == nullptr && StoreClock::now() - away_since_ > patience)
    return run_error("{} cannot be reached for {:.0f} s: {}", who_, options_.patience_seconds,
                     reason_of(last_status_));
  return std::nullopt;
}

// ---- the caller ----

void StoreLink::start(std::vector<StoreRequest> requests) {
  std::unique_lock lock(mutex_);
  size_t bytes = 0;
  for (StoreRequest& request : requests) {
    bytes += request.from.size_bytes();
    window_.add(std::move(request));
  }
  put_requests();
  if (window_.all_sent()) return;
  if (stream_ != nullptr && !sending_ && window_.unsent() == requests.size() && bytes <= kSmallRequest &&
      !by_memory(window_.next()))
    while (stream_ != nullptr && !window_.all_sent()) send_next(lock);
  else
    sendable_.notify_one();
}

StoreReport StoreLink::finish() {
  std::unique_lock lock(mutex_);
  while (!window_.all_answered()) {
    std::optional<Error> failed = failure_locked();
    if (!refused_ && stopped_) failed = run_error("{} was not waited for: the run is being stopped", who_);
    if (failed) {
      abandon(lock);
      throw Error(*failed);
    }
    put_requests();
    if (window_.all_answered()) break;  // the answers were there already
    if (in_memory_ == 0 || !shared_) {
      changed_.wait_for(lock, 100ms);
      continue;
    }
    lock.unlock();
    memory_->wait_for_answer(50ms);
    lock.lock();
    take_answers();
  }
  return window_.finish();
}

void StoreLink::pulled(const FrameHeader& answer, const FramePayload& values, std::span<float> into) {
  const std::lock_guard lock(mutex_);
  values.copy_to(std::as_writable_bytes(into));
  window_.pulled(answer);
  traffic_.from_copy += (answer.end - answer.begin) * sizeof(float);
}

/// After this call, the caller's memory is not touched any more.
void StoreLink::abandon(std::unique_lock<std::mutex>& lock) {
  window_.abandon();
  changed_.wait(lock, [&] { return !copying_; });
}

// ---- shared memory: the caller's thread puts requests and takes answers ----

bool StoreLink::by_memory(const StoreRequest& request) const {
  return shared_ && request.header.kind == FrameKind::exchange;
}

void StoreLink::put_requests() {
  if (!shared_) return;
  take_answers();
  while (stream_ != nullptr) {
    window_.skip_answered();
    if (window_.all_sent()) return;
    const StoreRequest& request = window_.next();
    if (!by_memory(request)) {
      sendable_.notify_one();
      return;
    }
    if (in_memory_ == StoreMemory::kMostRequests) return;
    memory_->put_request(request.header, request.members);
    traffic_.sent += sizeof(FrameHeader) + request.from.size_bytes();
    ++in_memory_;
    window_.sent();
  }
}

/// The server may have overwritten the rings.
void StoreLink::take_answers() {
  if (!shared_ || refused_) return;
  try {
    while (const std::optional<FrameHeader> header = memory_->take_answer()) {
      check_frame(*header, {});
      if (in_memory_ == 0) throw user_error("an answer without a request");
      --in_memory_;
      traffic_.received += sizeof(FrameHeader);
      if ((header->flags & kPull) != 0) traffic_.received += (header->end - header->begin) * sizeof(float);
      if (window_.place_of(*header)) window_.note(*header);
    }
  } catch (const Error& error) {
    refused_ = Error(error.kind(), fmt::format("{} sent {}", who_, error.what()));
    if (context_ != nullptr) context_->TryCancel();
  }
  if (window_.all_answered() || refused_) changed_.notify_all();
}

// ---- sending ----

/// Sends the window's next request; releases the lock meanwhile.
void StoreLink::send_next(std::unique_lock<std::mutex>& lock) {
  const grpc::ByteBuffer message = message_of(window_.next(), payload_checksums_);
  window_.sent();
  traffic_.sent += message.Length();
  Stream* const stream = stream_;
  sending_ = true;
  lock.unlock();
  grpc::WriteOptions options;
  const bool written = stream->Write(message, options);
  lock.lock();
  sending_ = false;
  if (!written && stream_ == stream) {
    stream_ = nullptr;  // the receiving thread finds out why
    if (context_ != nullptr) context_->TryCancel();
  }
  if (stream_ == nullptr) changed_.notify_all();
}

void StoreLink::send_for_ever() {
  std::unique_lock lock(mutex_);
  while (true) {
    sendable_.wait(lock, [&] {
      return ending_ ||
             (stream_ != nullptr && !sending_ && !window_.all_sent() && !by_memory(window_.next()));
    });
    if (ending_) return;
    window_.skip_answered();
    if (!window_.all_sent() && !by_memory(window_.next())) send_next(lock);
  }
}

}  // namespace telar
