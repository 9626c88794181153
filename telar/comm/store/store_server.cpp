#include "telar/comm/store/store_server.h"

#include <map>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "telar/comm/grpc_security.h"
#include "telar/comm/printable.h"
#include "telar/comm/store/held_store.h"
#include "telar/comm/store/random_id.h"
#include "telar/comm/store/store.grpc.pb.h"
#include "telar/comm/store/store_calls.h"
#include "telar/comm/store/store_copy_pulls.h"
#include "telar/comm/store/store_memory.h"
#include "telar/comm/store/store_shard.h"
#include "telar/comm/store/store_stream.h"
#include "telar/comm/store/store_tenure.h"
#include "telar/core/error.h"
#include "telar/core/memory_limit.h"

namespace telar {
namespace {

using namespace std::chrono_literals;

/// A refusal may quote what the client has sent.
constexpr size_t kLongestRefusal = 1000;

/// Limit for a message. It exceeds the largest frame, so most oversized messages are refused with an
/// explanation instead of by gRPC without one.
constexpr int kMostBytes = 4 * static_cast<int>(kLargestFrame);

std::string text_of(const grpc::ServerContext& context, const char* key) {
  const auto found = context.client_metadata().find(key);
  if (found == context.client_metadata().end()) return {};
  return {found->second.data(), found->second.size()};
}

struct Leave {
  std::function<void()> leave;
  ~Leave() { leave(); }
};

/// One StoreClient, across all its connections.
struct Peer {
  StorePeer memory;
  std::mutex serving;  ///< one stream at a time
  std::mutex mutex;
  grpc::ServerContext* stream = nullptr;  ///< the stream being served; guarded by mutex
};

}  // namespace

class StoreServer::Impl final : public store::ParameterStore::Service {
 public:
  explicit Impl(StoreServerOptions options)
      : options_(std::move(options)),
        held_({.snapshots = options_.snapshots,
               .fresh = options_.fresh,
               .snapshot_seconds = options_.snapshot_seconds,
               .round_seconds = options_.round_seconds,
               .own = 0,
               .make_update = options_.make_update,
               .say = options_.say}),
        transfers_(kExchangeMethod, [this](grpc::ServerContext& context,
                                           FrameServerStream& stream) { return exchange(context, stream); }),
        builder_(options_.listen, options_.security, kMostBytes, options_.keepalive_seconds) {
    builder_.grpc().RegisterService(this);
    builder_.grpc().RegisterService(&transfers_);
    server_ = builder_.start(options_.say);
  }

  ~Impl() override {
    held_.end();
    {
      const std::lock_guard configuring(configuring_);
      ending_ = true;
    }
    for (const auto& [number, shard] : shards_) shard->end();
    server_->shutdown();
    server_->wait();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  std::string address() const { return builder_.address(); }

  bool leave(std::chrono::seconds longest) {
    constexpr auto kNotAsked = 1500ms;  // the coordinator asks five times a second
    const auto end = StoreClock::now() + longest;
    std::unique_lock lock(mutex_);
    leaving_ = true;
    while (!shards_.empty() && !left_) {
      if (StoreClock::now() > end || StoreClock::now() - configured_ > kNotAsked) return false;
      lock.unlock();
      std::this_thread::sleep_for(50ms);
      lock.lock();
    }
    return true;
  }

  bool followed(std::chrono::milliseconds since) {
    const std::lock_guard lock(mutex_);
    return configured_ != StoreClock::time_point() && StoreClock::now() - configured_ < since;
  }

  bool in_use() {
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(peers_, [](const auto& entry) {
      const std::lock_guard peer_lock(entry.second->mutex);
      return entry.second->stream != nullptr;
    });
  }

  Memory memory() {
    Memory memory;
    const auto add = [&memory](HeldStore& held) {
      if (!held.created()) return;
      StoreBlocks& blocks = held.blocks();
      memory.arenas += blocks.arenas() * blocks.layout().floats * sizeof(float);
      memory.most_beside += blocks.account().most();
    };
    add(held_);
    const std::lock_guard lock(mutex_);
    for (const auto& [number, shard] : shards_) add(shard->held());
    return memory;
  }

 private:
  void say(const std::string& sentence) const {
    if (options_.say) options_.say(sentence);
  }

  /// Refusals are also logged here.
  grpc::Status refuse(const std::string& peer, grpc::StatusCode code, const std::string& sentence) const {
    const std::string safe = printable(sentence, kLongestRefusal);
    say(fmt::format("{} was refused: {}", peer, safe));
    return {code, safe};
  }
  grpc::Status refuse(const grpc::ServerContext& context, grpc::StatusCode code,
                      const std::string& sentence) const {
    return refuse(context.peer(), code, sentence);
  }
  grpc::Status check(const grpc::ServerContext& context) const {
    const grpc::Status status = check_caller(context, options_.security);
    return status.ok() ? status : refuse(context, status.error_code(), status.error_message());
  }
  grpc::Status check_job(const grpc::ServerContext& context, const std::string& job, HeldStore& held) {
    try {
      held.require_job(job);
    } catch (const Error& error) {
      return refuse(context, grpc::StatusCode::PERMISSION_DENIED, error.what());
    }
    return grpc::Status::OK;
  }

  grpc::Status check_tenure(const grpc::ServerContext& context, uint64_t tenure) {
    try {
      tenure_.require(tenure);
    } catch (const Error& error) {
      return refuse(context, grpc::StatusCode::FAILED_PRECONDITION, error.what());
    }
    return grpc::Status::OK;
  }

  /// The shard that a call means; null: what has no copies. Sets `status` if this server does not have it.
  std::shared_ptr<StoreShard> shard_of(const grpc::ServerContext& context, grpc::Status& status) {
    try {
      const uint64_t number = optional_number(text_of(context, kShardKey), kShardKey);
      if (number == 0) return nullptr;
      const std::lock_guard lock(mutex_);
      const auto found = shards_.find(number);
      if (found != shards_.end()) return found->second;
      status = {grpc::StatusCode::UNAVAILABLE, fmt::format("it has no copy of shard {} yet", number - 1)};
    } catch (const Error& error) {
      status = refuse(context, grpc::StatusCode::INVALID_ARGUMENT, error.what());
    }
    return nullptr;
  }
  HeldStore& held_of(const std::shared_ptr<StoreShard>& shard) {
    return shard == nullptr ? held_ : shard->held();
  }

  /// Returns whether it was new.
  bool create(HeldStore& held, StoreIdentity identity, const std::string& what) {
    const std::string job = identity.job;
    if (!held.create(std::move(identity))) return false;
    const StoreLayout& layout = held.identity().layout;
    say(fmt::format("{} holds {} of job {}: {:.1f} MB in {} pieces", address(), what, printable(job),
                    static_cast<double>(layout.floats) * 4e-6, layout.pieces.size()));
    return true;
  }

  grpc::Status Create(grpc::ServerContext* context, const store::CreateRequest* request,
                      store::CreateReply* reply) override {
    if (grpc::Status status = check(*context); !status.ok()) return status;
    grpc::Status found;
    const std::shared_ptr<StoreShard> shard = shard_of(*context, found);
    HeldStore& held = held_of(shard);
    if (!found.ok()) return found;
    if (grpc::Status status = check_job(*context, request->job(), held); !status.ok()) return status;
    try {
      reply->set_had(!create(held, identity_of(*request), "parameters"));
    } catch (const Error& error) {
      return refuse(*context, grpc::StatusCode::INVALID_ARGUMENT, error.what());
    }
    reply->set_tenure(tenure_.begin(request->take_over()));
    return grpc::Status::OK;
  }

  grpc::Status Configure(grpc::ServerContext* context, const store::ConfigureRequest* request,
                         store::ConfigureReply* reply) override {
    if (grpc::Status status = check(*context); !status.ok()) return status;
    if (grpc::Status status = check_job(*context, request->job(), held_); !status.ok()) return status;
    reply->set_id(start_);
    try {
      configure_all(*request);
      const std::lock_guard lock(mutex_);
      for (const auto& [number, shard] : shards_) {
        shard->held().require_job(request->job());
        const StoreShard::State state = shard->state();
        store::ShardState& of_shard = *reply->add_shards();
        of_shard.set_shard(static_cast<uint32_t>(number));
        of_shard.set_generation(state.generation);
        of_shard.set_whole(state.whole);
        of_shard.set_unlinked(!state.linked);
      }
      configured_ = StoreClock::now();
      reply->set_leaving(leaving_);
      left_ = leaving_ && request->left();
    } catch (const Error& error) {
      return refuse(*context,
                    error.kind() == Error::Kind::user ? grpc::StatusCode::PERMISSION_DENIED
                                                      : grpc::StatusCode::UNAVAILABLE,
                    error.what());
    }
    return grpc::Status::OK;
  }

  /// One call at a time. Making the arenas of a copy can take longer than the coordinator waits for an
  /// answer; when it asks again, it hears what there is.
  void configure_all(const store::ConfigureRequest& request) {
    const std::unique_lock configuring(configuring_, std::try_to_lock);
    if (!configuring || ending_) return;
    for (const store::Chain& chain : request.chains()) configure(request, chain);
  }

  void configure(const store::ConfigureRequest& request, const store::Chain& message) {
    constexpr uint32_t kMostShards = 1024;
    const uint32_t number = message.shard();
    ConfiguredChain chain = chain_of(message);
    if (number < 1 || number > kMostShards) throw user_error("the shard {}, which is not possible", number);
    std::shared_ptr<StoreShard> shard;
    {
      const std::lock_guard lock(mutex_);
      const auto found = shards_.find(number);
      if (found != shards_.end()) shard = found->second;
    }
    if (shard == nullptr) {
      if (!message.has_contents()) return;  // the reply says that it does not have it
      auto made = std::make_shared<StoreShard>(HeldStoreOptions{.snapshots = {},
                                                                .round_seconds = options_.round_seconds,
                                                                .own = start_,
                                                                .make_update = options_.make_update,
                                                                .say = options_.say},
                                               ChainLinkOptions{.address = {},
                                                                .security = options_.security,
                                                                .job = request.job(),
                                                                .shard = number,
                                                                .own = start_,
                                                                .shared_memory = options_.shared_memory,
                                                                .say = options_.say});
      create(made->held(), identity_of(message.contents()), fmt::format("a copy of shard {}", number - 1));
      const std::lock_guard lock(mutex_);
      if (shards_.empty() && !options_.snapshots.empty() && options_.say)
        options_.say(fmt::format("no snapshots are kept in {}, because the job's servers keep copies",
                                 options_.snapshots));
      shard = shards_.emplace(number, std::move(made)).first->second;
    } else if (message.has_contents()) {
      shard->held().create(identity_of(message.contents()));
    }
    shard->held().require_job(request.job());
    if (shard->configure(std::move(chain))) return;
    say(fmt::format("its copy of shard {} is on another server now", number - 1));
    const std::lock_guard lock(mutex_);
    shards_.erase(number);
  }

  grpc::Status Describe(grpc::ServerContext* context, const store::DescribeRequest* request,
                        store::DescribeReply* reply) override {
    if (grpc::Status status = check(*context); !status.ok()) return status;
    if (request->tenure() != 0)  // without one, its coordinator may be yet to come
      if (grpc::Status status = check_tenure(*context, request->tenure()); !status.ok()) return status;
    grpc::Status found;
    const std::shared_ptr<StoreShard> shard = shard_of(*context, found);
    HeldStore& held = held_of(shard);
    if (!found.ok()) return found;
    if (!held.created(300ms)) return grpc::Status::OK;
    if (grpc::Status status = check_job(*context, request->job(), held); !status.ok()) return status;
    reply->set_created(true);
    add_pieces(held.identity().layout, *reply->mutable_pieces());
    for (const std::string& slot : held.blocks().slots()) reply->add_slots(slot);
    return grpc::Status::OK;
  }

  grpc::Status exchange(grpc::ServerContext& context, FrameServerStream& stream) {
    if (grpc::Status status = check(context); !status.ok()) return status;
    grpc::Status found;
    const std::shared_ptr<StoreShard> shard = shard_of(context, found);
    if (!found.ok()) return found;
    HeldStore& held = held_of(shard);
    if (grpc::Status status = check_job(context, text_of(context, kJobKey), held); !status.ok())
      return status;
    const std::string peer = context.peer();  // unknown after the stream is cancelled
    try {
      if (shard != nullptr && !text_of(context, kSuccessorKey).empty())
        return serve_successor(context, stream, *shard);
      if (shard != nullptr && !text_of(context, kCopyKey).empty())
        return serve_copy_pulls(context, stream, *shard);
      const TransferOpening opening = opening_of([&](const char* key) { return text_of(context, key); });
      std::unique_ptr<StoreShard::Stream> of_generation;
      if (shard != nullptr) {
        of_generation = shard->admit_member(opening.generation, context);
        if (!of_generation)
          return {grpc::StatusCode::UNAVAILABLE,
                  fmt::format("it is not the first server of shard {} in generation {}",
                              text_of(context, kShardKey), opening.generation)};
      }
      if (opening.tenure == 0 && !held.created())
        return {grpc::StatusCode::UNAVAILABLE, "it has no parameters yet"};
      const StoreTenure::Stream of_tenure(tenure_, opening.tenure, [&context] { context.TryCancel(); });
      serve(context, stream, opening, held,
            shard == nullptr ? start_ : static_cast<uint64_t>(shard->founded()));
      return grpc::Status::OK;
    } catch (const Error& error) {
      const bool damaged = error.kind() == Error::Kind::run;  // on its way; the member sends it again
      return refuse(peer, damaged ? grpc::StatusCode::DATA_LOSS : grpc::StatusCode::INVALID_ARGUMENT,
                    fmt::format("{} (member {})", error.what(), text_of(context, kMemberKey)));
    } catch (const std::exception& error) {
      return refuse(peer, grpc::StatusCode::INTERNAL, as_error(error).what());
    }
  }

  grpc::Status serve_successor(grpc::ServerContext& context, FrameServerStream& stream,
                               StoreShard& shard) const {
    const auto number = [&context](const char* key) { return optional_number(text_of(context, key), key); };
    const auto generation = static_cast<int64_t>(number(kGenerationKey));
    const auto admitted = shard.admit_successor(generation, number(kSuccessorKey), context);
    if (!admitted) return {grpc::StatusCode::UNAVAILABLE, "it has not heard of this chain yet"};
    const std::string where = text_of(context, kMemoryKey);
    telar::serve_successor(context, stream, shard.held().blocks(), generation,
                           text_of(context, kChecksumsKey) != "0",
                           options_.shared_memory ? ChainMemory::open(where) : nullptr);
    return grpc::Status::OK;
  }

  static grpc::Status serve_copy_pulls(grpc::ServerContext& context, FrameServerStream& stream,
                                       StoreShard& shard) {
    const auto generation =
        static_cast<int64_t>(optional_number(text_of(context, kGenerationKey), kGenerationKey));
    const auto admitted = shard.admit_copy_pulls(generation, context);
    if (!admitted)
      return {grpc::StatusCode::CANCELLED,
              fmt::format("it is not the last server of shard {} in generation {}",
                          text_of(context, kShardKey), generation)};
    telar::serve_copy_pulls(stream, shard.held().blocks(), generation,
                            text_of(context, kChecksumsKey) != "0");
    return grpc::Status::OK;
  }

  /// `start`: Welcome::start.
  void serve(grpc::ServerContext& context, FrameServerStream& stream, const TransferOpening& opening,
             HeldStore& held, uint64_t start) {
    const uint32_t member = opening.member;
    const std::shared_ptr<Peer> peer = peer_of(opening.client);
    {
      // The broken connection may not have been noticed yet.
      const std::lock_guard lock(peer->mutex);
      if (peer->stream != nullptr) peer->stream->TryCancel();
    }
    const std::lock_guard serving(peer->serving);
    {
      const std::lock_guard lock(peer->mutex);
      peer->stream = &context;
    }
    if (member != 0) held.save_first();
    held.members().arrived(member, opening.first_round);
    say(fmt::format("Member {} is connected from {}", member, context.peer()));
    const Leave leave{[&] {
      const std::lock_guard lock(peer->mutex);
      peer->stream = nullptr;
      held.members().left(member);
      say(fmt::format("The connection of member {} has ended", member));
    }};
    std::shared_ptr<StoreMemory> memory;
    if (options_.shared_memory && !opening.memory.empty())
      memory = StoreMemory::open(opening.memory, held.identity().layout.floats);
    if (memory) memory->prepare();
    if (!stream.Write(welcome(held, start, memory ? memory->proof() : 0))) return;

    std::atomic<bool> ended{false};
    const StoreBlocks::Cancelled cancelled = [&] { return ended || context.IsCancelled(); };
    std::optional<Error> failed;
    std::thread by_memory;
    if (memory)
      by_memory = std::thread([&] {
        try {
          StoreSession session(held.blocks(), held.members(), peer->memory, member, cancelled,
                               opening.generation);
          serve_memory(*memory, session, cancelled);
        } catch (const Error& error) {
          failed = error;
          context.TryCancel();
        }
      });
    const Leave end_memory{[&] {
      ended = true;
      if (by_memory.joinable()) by_memory.join();
    }};
    StoreSession session(held.blocks(), held.members(), peer->memory, member, cancelled, opening.generation);
    serve_stream(stream, context, session, opening.payload_checksums);
    end_memory.leave();
    if (failed) throw Error(*failed);
  }

  std::shared_ptr<Peer> peer_of(uint64_t client) {
    constexpr size_t kMostPeers = 10'000;
    const std::lock_guard lock(mutex_);
    if (peers_.size() >= kMostPeers)
      std::erase_if(peers_, [](const auto& entry) { return entry.second.use_count() == 1; });
    std::shared_ptr<Peer>& peer = peers_[client];
    if (!peer) peer = std::make_shared<Peer>();
    return peer;
  }

  static grpc::ByteBuffer welcome(HeldStore& held, uint64_t start, uint64_t proof) {
    store::Welcome message;
    message.set_start(start);
    message.set_proof(proof);
    const StoreLosses losses = held.losses();
    message.set_restarts(losses.restarts);
    message.set_lost_updates(losses.updates);
    message.set_unknown_losses(losses.unknown);
    for (const StoreSegment& segment : held.at_start()) {
      message.add_begins(segment.begin);
      message.add_versions(segment.version);
    }
    OwnedFrame frame({.kind = FrameKind::welcome}, {}, message.ByteSizeLong());
    message.SerializeToArray(frame.payload.data(), static_cast<int>(frame.payload.size()));
    frame.seal();
    return frame.message();
  }

  StoreServerOptions options_;
  HeldStore held_;
  FrameService transfers_;
  SecureServerBuilder builder_;
  const uint64_t start_ = random_id();
  StoreTenure tenure_;
  std::mutex configuring_;  ///< held by who changes shards_; guards ending_
  bool ending_ = false;
  std::mutex mutex_;  ///< guards the members up to server_
  std::map<uint64_t, std::shared_ptr<Peer>> peers_;
  std::map<uint64_t, std::shared_ptr<StoreShard>> shards_;
  StoreClock::time_point configured_;  ///< last; the clock's zero: never
  bool leaving_ = false;
  bool left_ = false;
  std::unique_ptr<SecureServer> server_;
};

StoreServer::StoreServer(StoreServerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
StoreServer::~StoreServer() = default;
std::string StoreServer::address() const { return impl_->address(); }
bool StoreServer::in_use() const { return impl_->in_use(); }
bool StoreServer::leave(std::chrono::seconds longest) { return impl_->leave(longest); }
bool StoreServer::followed(std::chrono::milliseconds since) { return impl_->followed(since); }
StoreServer::Memory StoreServer::memory() const { return impl_->memory(); }

}  // namespace telar
