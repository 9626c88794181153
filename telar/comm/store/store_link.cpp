#include "telar/comm/store/store_link.h"

#include <cstring>

#include "telar/comm/store/random_id.h"

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

grpc::ByteBuffer message_of(const StoreRequest& request) {
  if (request.from.empty() || !request.keeper) {
    const OwnedFrame frame(request.header, request.members, request.from.size_bytes());
    if (!request.from.empty())
      std::memcpy(frame.payload.data(), request.from.data(), request.from.size_bytes());
    return frame.message();
  }
  const std::array<grpc::Slice, 2> slices{OwnedFrame(request.header, request.members, 0).slice,
                                          view_of(request)};
  return {slices.data(), slices.size()};
}

}  // namespace

StoreLink::StoreLink(const StoreClientOptions& options, std::shared_ptr<grpc::Channel> channel,
                     std::shared_ptr<StoreMemory> memory)
    : options_(options),
      who_(fmt::format("The parameter server {}", options.address)),
      client_(random_id()),
      channel_(std::move(channel)),
      memory_(std::move(memory)) {
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

void StoreLink::say(const std::string& sentence) const {
  if (options_.say) options_.say(sentence);
}

StoreClient::Traffic StoreLink::traffic() const {
  const std::lock_guard lock(mutex_);
  return traffic_;
}

// ---- the caller ----

void StoreLink::start(std::vector<StoreRequest> requests) {
  std::unique_lock lock(mutex_);
  size_t bytes = 0;
  for (StoreRequest& request : requests) {
    request.header.sequence = first_sequence_ + window_.size();
    bytes += request.from.size_bytes();
    window_.push_back({.request = std::move(request)});
    ++unanswered_;
  }
  put_requests();
  if (next_ == window_.size()) return;
  if (stream_ != nullptr && !sending_ && next_ + requests.size() == window_.size() &&
      bytes <= kSmallRequest && !by_memory(window_[next_].request))
    while (stream_ != nullptr && next_ < window_.size()) send_next(lock);
  else
    sendable_.notify_one();
}

StoreReport StoreLink::finish() {
  std::unique_lock lock(mutex_);
  const auto patience = std::chrono::duration<double>(options_.patience_seconds);
  while (unanswered_ > 0) {
    std::optional<Error> failed = refused_;
    if (!failed && stopped_) failed = run_error("{} was not waited for: the run is being stopped", who_);
    if (!failed && stream_ == nullptr && StoreClock::now() - away_since_ > patience)
      failed = run_error("{} cannot be reached for {:.0f} s: {}", who_, options_.patience_seconds,
                         last_status_.error_message());
    if (failed) {
      abandon(lock);
      throw Error(*failed);
    }
    put_requests();
    if (unanswered_ == 0) break;  // the answers were there already
    if (in_memory_ == 0 || !shared_) {
      changed_.wait_for(lock, 100ms);
      continue;
    }
    lock.unlock();
    memory_->wait_for_answer(50ms);
    lock.lock();
    take_answers();
  }
  for (const Sent& sent : window_)
    if ((sent.request.header.flags & kRound) != 0)
      finished_round_ = std::max(finished_round_, sent.request.header.round);
  first_sequence_ += window_.size();
  window_.clear();
  next_ = 0;
  StoreReport report = std::exchange(report_, {});
  if (pushed_floats_ > 0) report.staleness = staleness_floats_ / pushed_floats_;
  pushed_floats_ = staleness_floats_ = 0;
  return report;
}

/// After this call, the caller's memory is not touched any more.
void StoreLink::abandon(std::unique_lock<std::mutex>& lock) {
  next_ = window_.size();
  for (Sent& sent : window_) {
    sent.request.into = {};
    sent.request.from = {};
  }
  changed_.wait(lock, [&] { return !copying_; });
}

// ---- shared memory: the caller's thread puts requests and takes answers ----

bool StoreLink::by_memory(const StoreRequest& request) const {
  return shared_ && request.header.kind == FrameKind::exchange;
}

void StoreLink::put_requests() {
  if (!shared_) return;
  take_answers();
  while (stream_ != nullptr && (next_ = next_unsent()) < window_.size()) {
    StoreRequest& request = window_[next_].request;
    if (!by_memory(request)) {
      sendable_.notify_one();
      return;
    }
    if (in_memory_ == StoreMemory::kMostRequests) return;
    request.header.version = pulled_version(request.header.begin);
    memory_->put_request(request.header, request.members);
    traffic_.sent += sizeof(FrameHeader) + request.from.size_bytes();
    ++in_memory_;
    ++next_;
  }
}

void StoreLink::take_answers() {
  if (!shared_) return;
  while (const std::optional<FrameHeader> header = memory_->take_answer()) {
    --in_memory_;
    traffic_.received += sizeof(FrameHeader);
    if ((header->flags & kPull) != 0) traffic_.received += (header->end - header->begin) * sizeof(float);
    if (header->sequence >= first_sequence_ && header->sequence - first_sequence_ < window_.size())
      note(*header);
  }
}

// ---- sending ----

size_t StoreLink::next_unsent() const {
  size_t next = next_;
  while (next < window_.size() && window_[next].answered &&
         (window_[next].request.header.flags & kRound) == 0)
    ++next;
  return next;
}

int64_t StoreLink::pulled_version(size_t begin) const {
  auto found = versions_.upper_bound(begin);
  return found == versions_.begin() ? -1 : std::prev(found)->second;
}

/// Sends window_[next_]; releases the lock meanwhile.
void StoreLink::send_next(std::unique_lock<std::mutex>& lock) {
  StoreRequest& request = window_[next_++].request;
  request.header.version = pulled_version(request.header.begin);
  const grpc::ByteBuffer message = message_of(request);
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
      return ending_ || (stream_ != nullptr && !sending_ && next_ < window_.size() &&
                         !by_memory(window_[next_].request));
    });
    if (ending_) return;
    next_ = next_unsent();
    if (next_ < window_.size() && !by_memory(window_[next_].request)) send_next(lock);
  }
}

}  // namespace telar
