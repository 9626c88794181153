#include "telar/comm/peers/peer_links.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "telar/comm/frame_service.h"
#include "telar/comm/greeting.h"
#include "telar/comm/grpc_security.h"
#include "telar/comm/peers/introduction.h"
#include "telar/comm/peers/peer_server.h"
#include "telar/comm/peers/peer_stream.h"
#include "telar/comm/printable.h"
#include "telar/core/error.h"

namespace telar {

namespace {

using namespace std::chrono_literals;
using PeerClock = std::chrono::steady_clock;

constexpr char kGroupKey[] = "telar-group";
constexpr char kRankKey[] = "telar-rank";
constexpr char kCertifiedName[] = "localhost";
constexpr auto kConnecting = 20s;
constexpr auto kTick = 100ms;
/// A process leaves when its own part is done; what the others still do without it has this time to end.
constexpr auto kFarewell = 2s;

std::string text_of(const grpc::ServerContext& context, const char* key) {
  const auto found = context.client_metadata().find(key);
  if (found == context.client_metadata().end()) return {};
  return {found->second.data(), found->second.size()};
}

// ---- the links ----

class PeerSend final : public Transfer {
 public:
  PeerSend(PeerStream& stream, MessageKey key, std::span<const std::byte> bytes)
      : stream_(stream), key_(key), bytes_(bytes) {}
  ~PeerSend() override { stream_.recall(in_transit_); }
  PeerSend(const PeerSend&) = delete;
  PeerSend& operator=(const PeerSend&) = delete;
  void start() override { stream_.send(key_, bytes_, in_transit_); }
  bool done() override { return in_transit_ == 0; }

 private:
  PeerStream& stream_;
  MessageKey key_;
  std::span<const std::byte> bytes_;
  std::atomic<size_t> in_transit_{0};
};

class PeerReceive final : public Transfer {
 public:
  PeerReceive(PeerStream& stream, MessageKey key, std::span<std::byte> bytes)
      : inbox_(stream.inbox()), key_(key) {
    receive_.bytes = bytes;
  }
  ~PeerReceive() override {
    if (!receive_.done) inbox_.cancel(key_, receive_);
  }
  PeerReceive(const PeerReceive&) = delete;
  PeerReceive& operator=(const PeerReceive&) = delete;
  void start() override { inbox_.start(key_, receive_); }
  bool done() override { return receive_.done; }

 private:
  PeerInbox& inbox_;
  MessageKey key_;
  PeerInbox::Receive receive_;
};

/// This process's side of all connections. Those of lower ranks accept, those of higher ranks connect.
class PeerLinks final : public ElasticLinks {
 public:
  /// `server`: where it is reached. Waits until all are connected; calls `look` meanwhile, to throw.
  PeerLinks(const peers::Introduction& introduction, std::unique_ptr<PeerServer> server, PeerOptions options,
            const std::function<void()>& look)
      : options_(std::move(options)),
        server_(std::move(server)),
        group_(introduction.group()),
        rank_(static_cast<int>(introduction.rank())),
        members_(introduction.members().begin(), introduction.members().end()) {
    for (int other = 0; other < size(); ++other)
      streams_.push_back(other == rank_
                             ? nullptr
                             : std::make_unique<PeerStream>(name(other), [this](bool lost) { tell(lost); }));
    for (int other = 0; other < rank_; ++other) threads_.emplace_back([this, other] { connect(other); });
    server_->serve_by(
        [this](grpc::ServerContext& context, FrameServerStream& stream) { return accept(context, stream); });
    try {
      wait_until_connected(look);
    } catch (...) {
      end(PeerFrame::Kind::failed, "it could not reach all others");
      throw;
    }
  }
  ~PeerLinks() override { end(PeerFrame::Kind::goodbye, {}); }
  PeerLinks(const PeerLinks&) = delete;
  PeerLinks& operator=(const PeerLinks&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  std::string name(int rank) const override {
    return fmt::format("rank {} ({})", rank, printable(members_[static_cast<size_t>(rank)].name()));
  }
  std::string last_of(int rank) const override { return streams_[static_cast<size_t>(rank)]->last_message(); }
  std::string host(int rank) const override { return members_[static_cast<size_t>(rank)].host(); }

  std::unique_ptr<Transfer> to(int rank, Lane lane, int tag, std::span<const std::byte> bytes) override {
    return std::make_unique<PeerSend>(stream(rank), MessageKey{0, lane, static_cast<uint32_t>(tag)}, bytes);
  }
  std::unique_ptr<Transfer> from(int rank, Lane lane, int tag, std::span<std::byte> bytes) override {
    return std::make_unique<PeerReceive>(stream(rank), MessageKey{0, lane, static_cast<uint32_t>(tag)},
                                         bytes);
  }
  PeerStream& stream(int rank) const { return *streams_[static_cast<size_t>(rank)]; }

  std::unique_ptr<ProcessLinks> generation(uint16_t generation, std::vector<int> ranks,
                                           std::function<void()> look) override;
  void drop_before(uint16_t generation) override {
    for (const auto& stream : streams_)
      if (stream != nullptr) stream->inbox().drop_before(generation);
  }
  std::string why_lost(int rank) const override { return rank == rank_ || !lost_ ? "" : stream(rank).lost(); }

  void check() const override {
    if (!lost_) return;
    for (const auto& stream : streams_)
      if (const std::string why = stream == nullptr ? "" : stream->lost(kFarewell); !why.empty())
        throw run_error("{}", why);
  }
  void rest() const override {
    std::unique_lock lock(mutex_);
    ++resting_;
    news_.wait_for(lock, 1ms);
    --resting_;
  }
  void all_reduce(std::span<float> /*values*/) override {
    throw run_error("there is no communication library whose sums could be measured");
  }
  void leave() override { say_last(PeerFrame::Kind::left, {}); }
  [[noreturn]] void abort(int code, const std::string& why) override {
    say_last(PeerFrame::Kind::failed, why);
    std::this_thread::sleep_for(200ms);  // the words are small, and who is stopped does not take them
    std::_Exit(code);
  }

 private:
  /// Throws Error (run) that names who is not connected.
  void wait_until_connected(const std::function<void()>& look) {
    const auto end = PeerClock::now() + kConnecting;
    for (int other = 0; other < size(); ++other) {
      PeerStream* stream = streams_[static_cast<size_t>(other)].get();
      while (stream != nullptr && !stream->wait_until_connected(PeerClock::now() + kTick)) {
        if (const std::string why = stream->lost(); !why.empty()) throw run_error("{}", why);
        if (PeerClock::now() > end)
          throw run_error(
              "the process of {} joined, but its connection to the process of {} was not made within {} s",
              name(std::max(other, rank_)), name(std::min(other, rank_)), kConnecting.count());
        if (look) look();
      }
    }
  }

  /// A connection that a process of higher rank has made; until it ends.
  grpc::Status accept(grpc::ServerContext& context, FrameServerStream& stream) {
    const std::string rank = text_of(context, kRankKey);
    const auto known = std::ranges::find_if(streams_, [&](const auto& one) {
      const auto at = &one - streams_.data();
      return at > rank_ && rank == std::to_string(at);
    });
    if (!same_secret(text_of(context, kGroupKey), group_) || known == streams_.end())
      return {grpc::StatusCode::PERMISSION_DENIED, "it belongs to another group of processes"};
    {
      const std::lock_guard lock(mutex_);
      bool& taken = taken_[static_cast<size_t>(known - streams_.begin())];
      if (std::exchange(taken, true))
        return {grpc::StatusCode::PERMISSION_DENIED, "a process of this rank is connected already"};
    }
    PeerFrame frame{.kind = PeerFrame::Kind::welcome};
    seal(frame, {});
    const grpc::Slice slice(&frame, sizeof frame);
    if (stream.Write(grpc::ByteBuffer(&slice, 1)))
      (*known)->serve(stream, stream, [&context] { context.TryCancel(); });
    else
      (*known)->lose(fmt::format("the process of {} is lost: it ended its connection",
                                 name(static_cast<int>(known - streams_.begin()))));
    return grpc::Status::OK;
  }

  /// The last words, and the end of all connections.
  void end(PeerFrame::Kind last, const std::string& why) {
    say_last(last, why);
    for (const auto& stream : streams_)
      if (stream != nullptr) stream->close(2s);
    ending_.request_stop();
    server_->serve_by({});
    threads_.clear();
  }

  void tell(bool lost) {
    if (lost) lost_ = true;
    const std::lock_guard lock(mutex_);
    if (resting_ > 0) news_.notify_all();
  }

  void say_last(PeerFrame::Kind last, const std::string& why) {
    for (const auto& stream : streams_)
      if (stream != nullptr) stream->say_last(last, why);
  }

  void connect(int other) {
    PeerStream& peer = *streams_[static_cast<size_t>(other)];
    try {
      const std::shared_ptr<grpc::Channel> channel =
          secure_channel(members_[static_cast<size_t>(other)].address(), options_.security, kMostPeerBytes,
                         kKeepaliveSeconds, kCertifiedName);
      grpc::ClientContext context;
      introduce(context, options_.security);
      context.AddMetadata(kGroupKey, group_);
      context.AddMetadata(kRankKey, std::to_string(rank_));
      const std::unique_ptr<FrameClientStream> stream = open_frames(channel, kPeerMessagesMethod, context);
      const std::stop_callback ending(ending_.get_token(), [&context] { context.TryCancel(); });
      grpc::ByteBuffer welcome;
      if (stream->Read(&welcome)) peer.serve(*stream, *stream, [&context] { context.TryCancel(); });
      stream->WritesDone();
      const grpc::Status status = stream->Finish();
      if (!status.ok())
        peer.lose(error_of(status, fmt::format("the process of {} at {}", name(other),
                                               members_[static_cast<size_t>(other)].address()))
                      .what());
    } catch (const Error& error) {
      peer.lose(error.what());
    }
  }

  PeerOptions options_;
  std::unique_ptr<PeerServer> server_;
  std::string group_;
  int rank_;
  std::vector<peers::Introduced> members_;
  mutable std::mutex mutex_;  ///< guards taken_ and resting_
  mutable std::condition_variable news_;
  mutable int resting_ = 0;
  std::map<size_t, bool> taken_;
  std::atomic<bool> lost_{false};
  std::stop_source ending_;
  std::vector<std::unique_ptr<PeerStream>> streams_;  ///< by rank; null: this process
  std::vector<std::jthread> threads_;
};

/// Some of the processes, as the links of a generation.
class PeerGeneration final : public ProcessLinks {
 public:
  PeerGeneration(PeerLinks& all, uint16_t generation, std::vector<int> ranks, std::function<void()> look)
      : all_(all),
        generation_(generation),
        ranks_(std::move(ranks)),
        rank_(static_cast<int>(std::ranges::find(ranks_, all.rank()) - ranks_.begin())),
        look_(std::move(look)) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(ranks_.size()); }
  std::string name(int rank) const override { return all_.name(of(rank)); }
  std::string last_of(int rank) const override { return all_.last_of(of(rank)); }
  std::string host(int rank) const override { return all_.host(of(rank)); }
  std::unique_ptr<Transfer> to(int rank, Lane lane, int tag, std::span<const std::byte> bytes) override {
    return std::make_unique<PeerSend>(all_.stream(of(rank)), key(lane, tag), bytes);
  }
  std::unique_ptr<Transfer> from(int rank, Lane lane, int tag, std::span<std::byte> bytes) override {
    return std::make_unique<PeerReceive>(all_.stream(of(rank)), key(lane, tag), bytes);
  }
  void check() const override {
    for (const int rank : ranks_)
      if (const std::string why = all_.why_lost(rank); !why.empty()) throw run_error("{}", why);
    look_();
  }
  void rest() const override { all_.rest(); }
  void all_reduce(std::span<float> values) override { all_.all_reduce(values); }
  [[noreturn]] void abort(int code, const std::string& why) override { all_.abort(code, why); }

 private:
  int of(int rank) const { return ranks_[static_cast<size_t>(rank)]; }
  MessageKey key(Lane lane, int tag) const { return {generation_, lane, static_cast<uint32_t>(tag)}; }

  PeerLinks& all_;
  uint16_t generation_;
  std::vector<int> ranks_;  ///< among all
  int rank_;
  std::function<void()> look_;
};

std::unique_ptr<ProcessLinks> PeerLinks::generation(uint16_t generation, std::vector<int> ranks,
                                                    std::function<void()> look) {
  return std::make_unique<PeerGeneration>(*this, generation, std::move(ranks), std::move(look));
}

}  // namespace

class PeerMeeting::Impl {
 public:
  Impl(const std::string& address, int processes, std::string description, PeerOptions options)
      : description_(std::move(description)),
        options_(std::move(options)),
        server_(std::make_unique<PeerServer>(address, options_, processes)),
        address_(server_->address()) {}

  std::string address() const { return address_; }

  std::unique_ptr<ElasticLinks> wait(const std::function<void()>& check) {
    const peers::Introduction introduction = server_->gather(description_, check);
    return std::make_unique<PeerLinks>(introduction, std::move(server_), options_, check);
  }

 private:
  std::string description_;
  PeerOptions options_;
  std::unique_ptr<PeerServer> server_;
  std::string address_;
};

PeerMeeting::PeerMeeting(const std::string& address, int processes, std::string description,
                         PeerOptions options)
    : impl_(std::make_unique<Impl>(address, processes, std::move(description), std::move(options))) {}
PeerMeeting::~PeerMeeting() = default;
std::string PeerMeeting::address() const { return impl_->address(); }
std::unique_ptr<ElasticLinks> PeerMeeting::wait(const std::function<void()>& check) {
  return impl_->wait(check);
}

std::optional<JoinedPeers> join_peers(const std::string& address, int processes, double patience_seconds,
                                      const PeerOptions& options) {
  const bool near = Address::parse(address).loopback();
  auto server = std::make_unique<PeerServer>(near ? "127.0.0.1:0" : "0.0.0.0:0", options, 0);
  peers::Arrival arrival = own_arrival();
  arrival.set_port(Address::parse(server->address()).port);
  arrival.set_purpose(options.purpose);
  arrival.set_processes(static_cast<uint32_t>(processes));
  const std::string who = fmt::format("The coordinator {}", address);
  const auto channel = secure_channel(address, options.security, kMostPeerBytes);
  const auto meeting = peers::Meeting::NewStub(channel);
  const auto end = PeerClock::now() + std::chrono::duration<double>(patience_seconds);
  while (true) {
    grpc::ClientContext context;
    const std::stop_callback stop(options.stop, [&context] { context.TryCancel(); });
    introduce(context, options.security);
    peers::Introduction introduction;
    const grpc::Status status = meeting->Join(&context, arrival, &introduction);
    if (options.stop.stop_requested())
      throw run_error("{} was not waited for: the process is being stopped", who);
    if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) return std::nullopt;
    if (status.ok()) {
      require_introduced(introduction);
      // Rank 0 is where this process has found it.
      introduction.mutable_members(0)->set_address(address);
      std::string description = introduction.description();
      return JoinedPeers{std::make_unique<PeerLinks>(introduction, std::move(server), options, nullptr),
                         std::move(description)};
    }
    if (status.error_code() != grpc::StatusCode::UNAVAILABLE || is_refusal(status) || PeerClock::now() > end)
      throw error_of(status, who);
    std::this_thread::sleep_for(kTick);
  }
}

}  // namespace telar
