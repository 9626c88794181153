#include "telar/comm/peers/peer_links.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
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
// Of a process that takes a place: who it is.
constexpr char kNewcomerKey[] = "telar-newcomer";
constexpr char kHostKey[] = "telar-host";
constexpr char kAddressKey[] = "telar-address";
constexpr char kCertifiedName[] = "localhost";
constexpr auto kConnecting = 20s;
constexpr auto kTick = 100ms;
/// A process leaves when its own part is done; what the others still do without it has this time to end.
constexpr auto kFarewell = 2s;

/// The process that leads the group is where this one has found it, and so is the host of those that it
/// reaches by the loopback: many hosts call themselves 127.0.1.1.
void name_as_seen_from_here(peers::Introduction& introduction, const std::string& meeting) {
  const Address found = Address::parse(meeting);
  introduction.mutable_members(static_cast<int>(introduction.leader()))->set_address(meeting);
  for (peers::Introduced& member : *introduction.mutable_members()) {
    if (member.address().empty()) continue;
    const Address told = Address::parse(member.address());
    if (told.loopback()) member.set_address(Address{found.host, told.port}.text());
  }
}

std::string text_of(const grpc::ServerContext& context, const char* key) {
  const auto found = context.client_metadata().find(key);
  if (found == context.client_metadata().end()) return {};
  return {found->second.data(), found->second.size()};
}

/// Who has come is not needed any more.
class RunOver : public std::exception {};

// ---- the links ----

class PeerSend final : public Transfer {
 public:
  PeerSend(std::shared_ptr<PeerStream> stream, MessageKey key, std::span<const std::byte> bytes)
      : stream_(std::move(stream)), key_(key), bytes_(bytes) {}
  ~PeerSend() override { stream_->recall(in_transit_); }
  PeerSend(const PeerSend&) = delete;
  PeerSend& operator=(const PeerSend&) = delete;
  void start() override { stream_->send(key_, bytes_, in_transit_); }
  bool done() override { return in_transit_ == 0; }

 private:
  std::shared_ptr<PeerStream> stream_;
  MessageKey key_;
  std::span<const std::byte> bytes_;
  std::atomic<size_t> in_transit_{0};
};

class PeerReceive final : public Transfer {
 public:
  PeerReceive(std::shared_ptr<PeerStream> stream, MessageKey key, std::span<std::byte> bytes)
      : stream_(std::move(stream)), key_(key) {
    receive_.bytes = bytes;
  }
  ~PeerReceive() override {
    if (!receive_.done) stream_->inbox().cancel(key_, receive_);
  }
  PeerReceive(const PeerReceive&) = delete;
  PeerReceive& operator=(const PeerReceive&) = delete;
  void start() override { stream_->inbox().start(key_, receive_); }
  bool done() override { return receive_.done; }

 private:
  std::shared_ptr<PeerStream> stream_;
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
        leader_(static_cast<int>(introduction.leader())),
        taken_(introduction.takes_place()),
        places_(static_cast<size_t>(introduction.members_size())) {
    for (int other = 0; other < size(); ++other) {
      Place& place = places_[static_cast<size_t>(other)];
      place.member = introduction.members(other);
      if (other != rank_) place.stream = make_stream(other, place.member);
      if (is_absent(other))
        place.stream->lose(fmt::format("the process of {} was lost before this one came", name(other)));
    }
    for (int other = 0; other < size(); ++other)
      if (other != rank_ && (other < rank_ || taken_) && !is_absent(other))
        threads_.emplace_back([this, other] { connect(other); });
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
  int size() const override { return static_cast<int>(places_.size()); }
  std::string name(int rank) const override { return name_of(rank, member(rank)); }
  std::string last_of(int rank) const override { return stream(rank)->last_message(); }
  std::string host(int rank) const override { return member(rank).host(); }

  std::unique_ptr<Transfer> to(int rank, Lane lane, int tag, std::span<const std::byte> bytes) override {
    return std::make_unique<PeerSend>(stream(rank), MessageKey{0, lane, static_cast<uint32_t>(tag)}, bytes);
  }
  std::unique_ptr<Transfer> from(int rank, Lane lane, int tag, std::span<std::byte> bytes) override {
    return std::make_unique<PeerReceive>(stream(rank), MessageKey{0, lane, static_cast<uint32_t>(tag)},
                                         bytes);
  }
  /// Null: this process.
  std::shared_ptr<PeerStream> stream(int rank) const {
    const std::lock_guard lock(places_mutex_);
    return places_[static_cast<size_t>(rank)].stream;
  }

  std::unique_ptr<ProcessLinks> generation(uint16_t generation, std::vector<int> ranks,
                                           std::function<void()> look) override;
  void drop_before(uint16_t generation) override {
    for (const auto& stream : streams()) stream->inbox().drop_before(generation);
  }
  std::string why_lost(int rank) const override {
    return rank == rank_ || !lost_ ? "" : stream(rank)->lost();
  }

  bool has_left(int rank) const override { return rank != rank_ && stream(rank)->has_left(); }

  void admit(const std::string& description) override {
    server_->admit([this, description](const peers::Introduced& one) { return place_for(one, description); });
  }
  void set_members(const std::vector<int>& ranks) override {
    const std::lock_guard lock(places_mutex_);
    for (Place& place : places_) {
      const bool vacant = std::ranges::find(ranks, &place - places_.data()) == ranks.end();
      if (vacant == place.vacant) continue;
      place.vacant = vacant;
      place.newcomer = false;
      place.promised = {};
    }
  }
  std::vector<int> newcomers() override {
    const std::lock_guard lock(places_mutex_);
    return std::exchange(newcomers_, {});
  }
  bool has_taken_place() const override { return taken_; }
  int leader() const override { return leader_; }
  std::string address() const override { return server_->address(); }

  void check() const override {
    if (!lost_) return;
    for (const auto& stream : streams())
      if (const std::string why = stream->lost(kFarewell); !why.empty()) throw run_error("{}", why);
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
  /// A process of the group: of the one that this rank was first, or of the last that has taken its place.
  struct Place {
    peers::Introduced member;
    std::shared_ptr<PeerStream> stream;  ///< null: this process
    bool accepted = false;               ///< the stream has its connection
    bool vacant = false;                 ///< another process may take it
    bool newcomer = false;               ///< while it is vacant: the stream is that of one that has come
    PeerClock::time_point promised{};    ///< until when it is kept for `awaited`, which has been told of it
    peers::Introduced awaited;
  };

  static bool is_taken(const Place& place) {
    return place.newcomer && !place.stream->has_left() && place.stream->lost().empty();
  }

  peers::Introduced member(int rank) const {
    const std::lock_guard lock(places_mutex_);
    return places_[static_cast<size_t>(rank)].member;
  }
  std::vector<std::shared_ptr<PeerStream>> streams() const {
    const std::lock_guard lock(places_mutex_);
    std::vector<std::shared_ptr<PeerStream>> all;
    for (const Place& place : places_)
      if (place.stream != nullptr) all.push_back(place.stream);
    return all;
  }
  static std::string name_of(int rank, const peers::Introduced& member) {
    return fmt::format("rank {} ({})", rank, printable(member.name()));
  }
  std::shared_ptr<PeerStream> make_stream(int rank, const peers::Introduced& member) {
    return std::make_shared<PeerStream>(name_of(rank, member), [this](bool lost) { tell(lost); });
  }
  /// Of a process that has taken a place: whether the group was without this rank then.
  bool is_absent(int rank) const { return taken_ && member(rank).address().empty(); }

  /// Throws Error (run) that names who is not connected.
  void wait_until_connected(const std::function<void()>& look) {
    const auto end = PeerClock::now() + kConnecting;
    for (int other = 0; other < size(); ++other) {
      const std::shared_ptr<PeerStream> one = stream(other);
      while (one != nullptr && !is_absent(other) && !one->wait_until_connected(PeerClock::now() + kTick)) {
        if (over_) throw RunOver();
        if (const std::string why = one->lost(); !why.empty()) throw run_error("{}", why);
        if (PeerClock::now() > end)
          throw run_error(
              "the process of {} joined, but its connection to the process of {} was not made within {} s",
              name(std::max(other, rank_)), name(std::min(other, rank_)), kConnecting.count());
        if (look) look();
      }
    }
  }

  /// A vacant place for a process, and what it is told; in the one that leads.
  std::optional<peers::Introduction> place_for(const peers::Introduced& one, const std::string& description) {
    const std::lock_guard lock(places_mutex_);
    const auto now = PeerClock::now();
    const auto free = std::ranges::find_if(places_, [&](const Place& place) {
      return place.vacant && place.promised < now && !is_taken(place);
    });
    if (free == places_.end()) return std::nullopt;
    free->promised = now + kConnecting;
    free->awaited = one;
    peers::Introduction told;
    told.set_group(group_);
    told.set_rank(static_cast<uint32_t>(free - places_.begin()));
    told.set_description(description);
    told.set_takes_place(true);
    told.set_leader(static_cast<uint32_t>(rank_));
    // Of two that come at the same time, the later one connects to the earlier one, even if this process has
    // not heard of it yet.
    for (const Place& place : places_) {
      peers::Introduced& member = *told.add_members();
      member = place.promised >= now ? place.awaited : place.member;
      if (place.promised < now && place.vacant && !is_taken(place)) member.clear_address();
    }
    return told;
  }

  /// The stream of a connection that another process has made; null: it may not.
  std::shared_ptr<PeerStream> stream_for(grpc::ServerContext& context, int rank) {
    if (rank < 0 || rank >= size() || rank == rank_) return nullptr;
    const std::string newcomer = text_of(context, kNewcomerKey);
    if (newcomer.empty()) {
      const std::lock_guard lock(places_mutex_);
      Place& place = places_[static_cast<size_t>(rank)];
      return rank < rank_ || std::exchange(place.accepted, true) ? nullptr : place.stream;
    }
    // It may come before this process has heard that the one before it is lost.
    const auto end = PeerClock::now() + kConnecting;
    std::unique_lock lock(places_mutex_);
    Place& place = places_[static_cast<size_t>(rank)];
    while (!ends_ && (!place.vacant || is_taken(place))) {
      if (context.IsCancelled() || PeerClock::now() > end) return nullptr;
      lock.unlock();
      std::this_thread::sleep_for(kTick / 10);
      lock.lock();
    }
    if (ends_) return nullptr;
    place.newcomer = true;
    place.promised = {};  // from here on its connection shows whether it is alive
    place.member.set_name(newcomer);
    place.member.set_host(text_of(context, kHostKey));
    place.member.set_address(text_of(context, kAddressKey));
    const std::shared_ptr<PeerStream> before = std::exchange(
        place.stream,
        std::make_shared<PeerStream>(name_of(rank, place.member), [this](bool lost) { tell(lost); }));
    newcomers_.push_back(rank);
    std::shared_ptr<PeerStream> next = place.stream;
    lock.unlock();
    before->close(0s);
    return next;
  }

  bool ends() const {
    const std::lock_guard lock(places_mutex_);
    return ends_;
  }

  /// A connection that another process has made; until it ends.
  grpc::Status accept(grpc::ServerContext& context, FrameServerStream& stream) {
    const std::string text = text_of(context, kRankKey);
    int rank = -1;
    std::from_chars(text.data(), text.data() + text.size(), rank);
    if (!same_secret(text_of(context, kGroupKey), group_))
      return {grpc::StatusCode::PERMISSION_DENIED, "it belongs to another group of processes"};
    const std::shared_ptr<PeerStream> peer = stream_for(context, rank);
    if (peer == nullptr && ends()) return {grpc::StatusCode::ABORTED, "the run is over"};
    if (peer == nullptr)
      return {grpc::StatusCode::PERMISSION_DENIED, "a process of this rank is connected already"};
    PeerFrame frame{.kind = PeerFrame::Kind::welcome};
    seal(frame, {});
    const grpc::Slice slice(&frame, sizeof frame);
    if (stream.Write(grpc::ByteBuffer(&slice, 1)))
      peer->serve(stream, stream, [&context] { context.TryCancel(); });
    else
      peer->lose(fmt::format("the process of {} is lost: it ended its connection", name(rank)));
    return grpc::Status::OK;
  }

  /// The last words, and the end of all connections.
  void end(PeerFrame::Kind last, const std::string& why) {
    server_->admit({});
    {
      const std::lock_guard lock(places_mutex_);
      ends_ = true;
    }
    say_last(last, why);
    for (const auto& stream : streams()) stream->close(2s);
    ending_.request_stop();
    // A connection may have begun after its stream was closed.
    server_->serve_no_more([this, until = PeerClock::now() + kFarewell] {
      for (const auto& stream : streams())
        if (PeerClock::now() > until) stream->close(0s);
    });
    threads_.clear();
  }

  void tell(bool lost) {
    if (lost) lost_ = true;
    const std::lock_guard lock(mutex_);
    if (resting_ > 0) news_.notify_all();
  }

  void say_last(PeerFrame::Kind last, const std::string& why) {
    for (const auto& stream : streams()) stream->say_last(last, why);
  }

  void connect(int other) {
    const std::shared_ptr<PeerStream> peer = stream(other);
    const peers::Introduced own = member(rank_);
    const std::string address = member(other).address();
    try {
      const std::shared_ptr<grpc::Channel> channel =
          secure_channel(address, options_.security, kMostPeerBytes, kKeepaliveSeconds, kCertifiedName);
      grpc::ClientContext context;
      introduce(context, options_.security);
      context.AddMetadata(kGroupKey, group_);
      context.AddMetadata(kRankKey, std::to_string(rank_));
      if (taken_) {
        context.AddMetadata(kNewcomerKey, own.name());
        context.AddMetadata(kHostKey, own.host());
        context.AddMetadata(kAddressKey, own.address());
      }
      const std::unique_ptr<FrameClientStream> stream = open_frames(channel, kPeerMessagesMethod, context);
      const std::stop_callback ending(ending_.get_token(), [&context] { context.TryCancel(); });
      grpc::ByteBuffer welcome;
      if (stream->Read(&welcome)) peer->serve(*stream, *stream, [&context] { context.TryCancel(); });
      stream->WritesDone();
      const grpc::Status status = stream->Finish();
      if (status.error_code() == grpc::StatusCode::ABORTED && other == leader_) over_ = true;
      if (!status.ok())
        peer->lose(error_of(status, fmt::format("the process of {} at {}", name(other), address)).what());
    } catch (const Error& error) {
      peer->lose(error.what());
    }
  }

  PeerOptions options_;
  std::unique_ptr<PeerServer> server_;
  std::string group_;
  int rank_;
  int leader_;
  bool taken_;                       ///< this process has taken the place of a lost one
  mutable std::mutex places_mutex_;  ///< guards places_, whose number stays, newcomers_ and ends_
  std::vector<Place> places_;        ///< by rank
  std::vector<int> newcomers_;
  bool ends_ = false;         ///< this process says its last words
  mutable std::mutex mutex_;  ///< guards resting_
  mutable std::condition_variable news_;
  mutable int resting_ = 0;
  std::atomic<bool> lost_{false};
  std::atomic<bool> over_{false};  ///< the one that leads says so
  std::stop_source ending_;
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
  void needs_nobody() { server_->admit({}); }

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
void PeerMeeting::needs_nobody() { impl_->needs_nobody(); }
std::unique_ptr<ElasticLinks> PeerMeeting::wait(const std::function<void()>& check) {
  return impl_->wait(check);
}

std::optional<JoinedPeers> join_peers(const std::string& address, int processes, double patience_seconds,
                                      const PeerOptions& options) {
  const bool near = Address::parse(address).loopback();
  const std::string who = fmt::format("The coordinator {}", address);
  const auto channel = secure_channel(address, options.security, kMostPeerBytes);
  const auto meeting = peers::Meeting::NewStub(channel);
  const auto later = [&] { return PeerClock::now() + std::chrono::duration<double>(patience_seconds); };
  for (auto end = later(); true;) {
    auto server = std::make_unique<PeerServer>(near ? "127.0.0.1:0" : "0.0.0.0:0", options, 0);
    peers::Arrival arrival = own_arrival();
    arrival.set_port(Address::parse(server->address()).port);
    arrival.set_purpose(options.purpose);
    arrival.set_processes(static_cast<uint32_t>(processes));
    grpc::ClientContext context;
    const std::stop_callback stop(options.stop, [&context] { context.TryCancel(); });
    introduce(context, options.security);
    peers::Introduction introduction;
    const grpc::Status status = meeting->Join(&context, arrival, &introduction);
    if (options.stop.stop_requested())
      throw run_error("{} was not waited for: the process is being stopped", who);
    if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) return std::nullopt;
    if (status.ok()) {
      end = later();  // it may have waited for a place for long
      if (introduction.over()) return JoinedPeers{};
      require_introduced(introduction);
      name_as_seen_from_here(introduction, address);
      std::string description = introduction.description();
      try {
        return JoinedPeers{std::make_unique<PeerLinks>(introduction, std::move(server), options, nullptr),
                           std::move(description)};
      } catch (const RunOver&) {
        return JoinedPeers{};
      } catch (const Error&) {  // while it took a place, one more was lost
        if (!introduction.takes_place() || PeerClock::now() > end) throw;
      }
    } else if (status.error_code() != grpc::StatusCode::UNAVAILABLE || is_refusal(status) ||
               PeerClock::now() > end) {
      throw error_of(status, who);
    }
    std::this_thread::sleep_for(kTick);
  }
}

int tell_late_processes(const std::string& address, int late, double seconds, const PeerOptions& options,
                        const std::function<bool()>& stop) {
  PeerServer server(address, options, 0);
  server.admit({});
  const auto end = PeerClock::now() + std::chrono::duration<double>(seconds);
  while (server.told_over() < late && PeerClock::now() < end && !stop()) std::this_thread::sleep_for(kTick);
  return server.told_over();
}

}  // namespace telar
