#include "telar/comm/store/store_chains.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <span>
#include <thread>
#include <utility>

#include "telar/comm/grpc_security.h"
#include "telar/comm/store/store.grpc.pb.h"
#include "telar/comm/store/store_calls.h"
#include "telar/comm/store/store_chain_keeper.h"
#include "telar/comm/store/store_placement.h"

namespace telar {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kAskEvery = 200ms;
constexpr auto kAskAgain = 50ms;
constexpr auto kAnswersWithin = 700ms;
/// A server that does not answer for so long, and more than once, is given up. (One question may have met a
/// coordinator that was stopped itself.)
constexpr auto kSilence = 1400ms;
/// For a server that was just filled to say so.
constexpr auto kLastWord = 1000ms;
/// Until a server that has joined is asked no more. It asks itself to join when it is not asked.
constexpr auto kForgotten = 60s;
/// A server that answers, but cannot connect to the one before it in a chain for so long, is left out.
constexpr auto kUnlinked = 5s;
/// Before one that was left out so, or that has refused, may have copies again.
constexpr auto kBarred = 60s;
/// At the start, for a server in whose place one that has joined can hold a shard.
constexpr auto kFirstWord = 5s;
constexpr auto kChainTick = 50ms;
constexpr int kLargestWord = 64 << 20;

}  // namespace

class StoreChains::Impl {
 public:
  explicit Impl(StoreChainsOptions options) : options_(std::move(options)) {
    for (size_t s = 0; s < options_.shards.size(); ++s)
      keepers_.emplace_back(StoreChain{.generation = options_.generations_before});
    founded_.resize(keepers_.size());
    {
      const std::lock_guard lock(mutex_);
      for (const std::string& address : options_.addresses) add(address, false);
      for (const std::string& address : options_.joined) {
        try {
          if (!known(address)) add(address, true);
        } catch (const Error& error) {
          notes_.push_back(fmt::format("the parameter server {} is left out: {}", address, error.what()));
        }
      }
    }
    const Clock::time_point begin = Clock::now();
    wait(
        [this, begin] {
          if (!options_.joined.empty() && Clock::now() - begin > kFirstWord) found_elsewhere();
          for (size_t s = 0; s < keepers_.size(); ++s)
            if (founded_[s] == 0 || !knows(keepers_[s].chain().servers.front(), s)) return false;
          return true;
        },
        [] { return false; });
  }

  void join(const std::string& address) {
    const std::lock_guard lock(mutex_);
    if (known(address)) return;
    const auto is_far = [](const std::string& server) { return !Address::parse(server).loopback(); };
    if (!is_far(address) && std::ranges::any_of(options_.addresses, is_far))
      throw user_error(
          "{} is its host's name for itself, which the other hosts of the run cannot reach: name it with --listen as they do",
          address);
    for (const Server& server : servers_)
      if (server.address == address && server.refusal && Clock::now() - server.answered < kBarred)
        throw Error(*server.refusal);
    add(address, true);
    joined_changed_ = true;
  }

  void copy() {
    {
      const std::lock_guard lock(mutex_);
      copying_ = true;
      carry_out();
    }
    tell();
    wait([this] { return complete(); }, [this] { return all_answer(); });
  }

  std::vector<StoreHead> heads() const {
    const std::lock_guard lock(mutex_);
    std::vector<StoreHead> heads;
    for (size_t s = 0; s < keepers_.size(); ++s) heads.push_back(head_of(s));
    return heads;
  }

  std::optional<Error> failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

  bool copies_lost() const {
    const std::lock_guard lock(mutex_);
    return copies_lost_;
  }

 private:
  struct Server {
    std::string address;
    size_t number = 0;       ///< its place among all; at first it is the head of the shard of this number
    bool joined = false;     ///< it is none of the options' addresses
    bool forgotten = false;  ///< and asked no more
    std::unique_ptr<store::ParameterStore::Stub> stub = {};
    StoreServerId id = 0;  ///< 0: it has never answered
    bool given_up = false;
    std::optional<Clock::time_point> unlinked = {};  ///< since when it cannot follow another one
    std::optional<Clock::time_point> barred = {};    ///< until when it has no copies
    std::optional<Error> refusal = {};               ///< the last one, since it has answered
    std::optional<Clock::time_point> leaving = {};   ///< since when it has asked to be left out
    std::map<size_t, int64_t> generations = {};      ///< of the shards that it has, as it has said
    bool news = false;                               ///< there is something to tell it
    int failures = 0;                                ///< in a row
    Clock::time_point answered = Clock::now();
    grpc::Status status = {};
  };

  bool known(const std::string& address) const {
    return std::ranges::any_of(
        servers_, [&](const Server& server) { return server.address == address && !server.forgotten; });
  }

  void add(const std::string& address, bool joined) {
    const auto channel = secure_channel(address, options_.security, kLargestWord);  // or an Error
    Server& server =
        servers_.emplace_back(Server{.address = address, .number = servers_.size(), .joined = joined});
    server.stub = store::ParameterStore::NewStub(channel);
    threads_.emplace_back([this, &server](const std::stop_token& over) { ask_for_ever(server, over); });
  }

  /// The present server of an id; null: it is no more.
  Server* server_of(StoreServerId id) {
    const auto found = std::ranges::find_if(
        servers_, [id](const Server& server) { return server.id == id && !server.forgotten; });
    return found == servers_.end() ? nullptr : &*found;
  }
  static bool has_copy(const StoreChain& chain, StoreServerId id) {
    return std::ranges::find(chain.servers, id) != chain.servers.end();
  }
  /// Whether a server has said that it has heard of a shard's present chain.
  bool knows(StoreServerId id, size_t shard) {
    const Server* server = server_of(id);
    if (server == nullptr) return false;
    const auto known = server->generations.find(shard);
    return known != server->generations.end() && known->second == keepers_[shard].chain().generation;
  }
  /// The servers of a chain that have a whole copy, as far as is known: some may be given up.
  static std::span<const StoreServerId> whole(const StoreChain& chain) {
    return std::span(chain.servers).first(chain.servers.size() - (chain.joins_since > 0 ? 1 : 0));
  }
  size_t copies() const { return std::min(options_.copies, options_.addresses.size()); }
  /// Without those of servers that leave.
  bool complete() {
    return std::ranges::all_of(keepers_, [this](const ChainKeeper& keeper) {
      const auto there = [this](StoreServerId id) {
        const Server* server = server_of(id);
        return server != nullptr && !server->given_up && !server->leaving;
      };
      return static_cast<size_t>(std::ranges::count_if(whole(keeper.chain()), there)) >= copies();
    });
  }

  StoreHead head_of(size_t shard) const {
    const StoreChain& chain = keepers_[shard].chain();
    const bool filled = chain.servers.size() > 1 && chain.joins_since == 0;
    return {.address = address_of_.at(chain.servers.front()),
            .generation = chain.generation,
            .copy = filled ? address_of_.at(chain.servers.back()) : ""};
  }

  /// Of the options.
  bool all_answer() const {
    return std::ranges::all_of(servers_, [](const Server& server) {
      return server.joined || (server.failures == 0 && !server.given_up && !server.unlinked);
    });
  }

  /// No patience is lost while `advances`.
  template <typename Condition, typename Advances>
  void wait(const Condition& condition, const Advances& advances) {
    const std::chrono::duration<double> patience(options_.patience_seconds);
    auto end = Clock::now() + patience;
    std::unique_lock lock(mutex_);
    while (!condition()) {
      if (advances()) end = Clock::now() + patience;
      if (failure_) throw Error(*failure_);
      if (options_.stop.stop_requested())
        throw run_error("The parameter servers were not waited for: the run is being stopped");
      if (Clock::now() > end) {
        for (const Server& server : servers_)
          if (server.failures > 0 && !server.joined)
            throw error_of(server.status, "The parameter server " + server.address);
        throw run_error("the copies of the parameter servers' blocks are not there after {:.0f} s",
                        options_.patience_seconds);
      }
      changed_.wait_for(lock, kChainTick);
    }
  }

  void ask_for_ever(Server& server, const std::stop_token& over) {
    while (!over.stop_requested()) {
      store::ConfigureRequest request;
      {
        const std::lock_guard lock(mutex_);
        if (server.forgotten) return;
        server.news = false;
        describe(server, request);
      }
      tell();  // before any server can answer a push in a chain of which a worker has not heard
      const Clock::time_point asked = Clock::now();
      store::ConfigureReply reply;
      grpc::Status status;
      {
        grpc::ClientContext context;
        introduce(context, options_.security);
        context.set_deadline(std::chrono::system_clock::now() + kAnswersWithin);
        const std::stop_callback cancel(over, [&] { context.TryCancel(); });
        status = server.stub->Configure(&context, request, &reply);
      }
      {
        const std::lock_guard lock(mutex_);
        status.ok() ? answered(server, reply, asked) : failed(server, status);
        carry_out();
      }
      changed_.notify_all();
      tell();
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, status.ok() ? kAskEvery : kAskAgain,
                        [&] { return over.stop_requested() || (server.news && status.ok()); });
    }
  }

  /// What a server is to know.
  void describe(const Server& server, store::ConfigureRequest& request) {
    request.set_job(options_.job);
    for (size_t s = 0; s < keepers_.size(); ++s) {
      const StoreChain& chain = keepers_[s].chain();
      const bool copy = has_copy(chain, server.id);
      // Who has a copy no more is to forget it; but who leaves waits until others have heard of that.
      if (founded_[s] == 0 || (!copy && (server.leaving || !server.generations.contains(s)))) continue;
      store::Chain& message = *request.add_chains();
      message.set_shard(static_cast<uint32_t>(s + 1));
      message.set_founded(founded_[s]);
      message.set_generation(chain.generation);
      message.set_joins_since(chain.joins_since);
      message.set_ordered_since(chain.ordered_since);
      for (const StoreServerId id : chain.servers) {
        message.add_servers(id);
        message.add_addresses(address_of_.at(id));
      }
      if (server.generations.contains(s)) continue;
      store::CreateRequest& contents = *message.mutable_contents();
      contents.set_job(options_.job);
      contents.set_description(options_.shards[s].description);
      add_pieces(options_.shards[s].layout, *contents.mutable_pieces());
    }
    request.set_left(left(server));
  }

  /// Whether the heads of all chains in which this server was have heard that they are.
  bool left(const Server& server) {
    if (!server.leaving) return false;
    for (const auto& [s, generation] : server.generations) {
      const StoreChain& chain = keepers_[s].chain();
      if (has_copy(chain, server.id) || !knows(chain.servers.front(), s)) return false;
    }
    return true;
  }

  /// `asked`: when.
  void answered(Server& server, const store::ConfigureReply& reply, Clock::time_point asked) {
    server.failures = 0;
    server.answered = Clock::now();
    server.refusal.reset();
    const bool another = reply.id() != server.id;
    if (Server* const same = another ? server_of(reply.id()) : nullptr; same != nullptr) {
      if (!server.joined && !same->joined)
        return fail(user_error("the parameter servers {} and {} are one and the same", same->address,
                               server.address));
      forget(server.joined ? server : *same, "it has another address here");
      if (server.forgotten) return;
    }
    if (another) server.barred.reset();
    if (server.barred && Clock::now() > *server.barred) server.barred.reset();
    if (another || (server.given_up && !server.barred)) {
      if (another && server.id != 0) lose(server, "it was started again");
      server.id = reply.id();
      server.given_up = false;
      server.unlinked.reset();
      server.leaving.reset();
      address_of_[server.id] = server.address;
      notes_.push_back(fmt::format("the parameter server {} has joined", server.address));
      for (ChainKeeper& keeper : keepers_) keeper.arrived(server.id);
    }
    if (server.number < keepers_.size() && founded_[server.number] == 0) found(server.number, server);
    if (reply.leaving() && !server.leaving) {
      server.leaving = server.answered;
      note_end(server, "leaves");
    }
    server.generations.clear();
    bool linked = true;
    for (const store::ShardState& state : reply.shards()) {
      const size_t s = state.shard() - 1;
      if (state.shard() < 1 || s >= keepers_.size()) continue;
      if (state.generation() > keepers_[s].chain().generation)
        fail(run_error(
            "another coordinator of this run has taken the parameter server {} over (or the clock of this machine was set back)",
            server.address));
      server.generations[s] = state.generation();
      linked &= !state.unlinked() || !follows_one_that_answers(server, s, state.generation());
      keepers_[s].reported(server.id, {.generation = state.generation(), .whole = state.whole()});
      if (!state.whole() || state.generation() != keepers_[s].chain().generation) continue;
      // Who leaves may do so now: this one is there, and has everything.
      for (const Server& other : servers_)
        if (&other != &server && other.leaving && asked > *other.leaving) keepers_[s].given_up(other.id);
    }
    follows(server, linked);
  }

  /// If the one before it in the chain is away, too, that one is at fault.
  bool follows_one_that_answers(const Server& server, size_t shard, int64_t generation) {
    const StoreChain& chain = keepers_[shard].chain();
    const auto place = std::ranges::find(chain.servers, server.id);
    if (generation != chain.generation || place == chain.servers.begin() || place == chain.servers.end())
      return false;
    const Server* const before = server_of(*(place - 1));
    return before != nullptr && before->failures == 0 && !before->given_up;
  }

  /// All pushes to a shard would wait for a server that answers here, but cannot reach the one before it.
  void follows(Server& server, bool linked) {
    if (linked) return server.unlinked.reset();
    if (!server.unlinked) server.unlinked = Clock::now();
    if (server.given_up || Clock::now() - *server.unlinked < kUnlinked) return;
    const std::string why = "it cannot connect to another parameter server, whose updates it is to follow";
    server.barred = Clock::now() + kBarred;
    if (!server.joined) return lose(server, why);
    server.refusal = run_error("The parameter server {} is left out: {}", server.address, why);
    forget(server, why);
  }

  void failed(Server& server, const grpc::Status& status) {
    ++server.failures;
    server.status = status;
    const bool silent = server.failures > 1 && Clock::now() - server.answered >= kSilence;
    if (is_refusal(status)) {
      const Error error = error_of(status, "The parameter server " + server.address);
      if (!server.joined && !copying_) return fail(error);
      // Later, another one may have taken the place of one that was lost: the run goes on without it.
      if (!server.refusal) notes_.push_back(error.what());
      server.refusal = error;
      if (server.joined) return forget(server, error.what());
      server.barred = Clock::now() + kBarred;
    }
    if (silent && server.id != 0)
      lose(server, fmt::format("it has not answered for {:.1f} s",
                               std::chrono::duration<double>(Clock::now() - server.answered).count()));
    const bool needed = std::ranges::any_of(
        keepers_, [&](const ChainKeeper& keeper) { return has_copy(keeper.chain(), server.id); });
    if (server.joined && !needed && Clock::now() - server.answered > kForgotten)
      forget(server, reason_of(status));
  }

  /// What the server's process had is no copy any more.
  void lose(Server& server, const std::string& why) {
    if (std::exchange(server.given_up, true)) return;
    for (ChainKeeper& keeper : keepers_) keeper.given_up(server.id);
    if (!server.leaving) note_end(server, "is lost: " + why);
  }

  void note_end(const Server& server, const std::string& how) {
    notes_.push_back(fmt::format("the parameter server {} {}", server.address, how));
    said_complete_ = false;
  }

  /// A server that has joined is one no more.
  void forget(Server& server, const std::string& why) {
    server.forgotten = true;
    joined_changed_ = true;
    note_end(server, "is left out: " + why);
    for (ChainKeeper& keeper : keepers_) keeper.given_up(server.id);
  }

  void found(size_t shard, const Server& server) {
    keepers_[shard].found(server.id);
    founded_[shard] = keepers_[shard].chain().generation;
  }

  /// Shards whose servers have not answered begin on others, of which there are copies afterwards.
  void found_elsewhere() {
    for (size_t s = 0; s < keepers_.size(); ++s) {
      if (founded_[s] != 0) continue;
      const Server* least = nullptr;
      const auto heads = [this](const Server& server) {
        return std::ranges::count_if(
            keepers_, [&](const ChainKeeper& keeper) { return has_copy(keeper.chain(), server.id); });
      };
      for (const Server& server : servers_)
        if (takes_copies(server) && (least == nullptr || heads(server) < heads(*least))) least = &server;
      if (least == nullptr) return;
      found(s, *least);
      carry_out();
    }
  }

  static bool takes_copies(const Server& server) {
    return server.id != 0 && !server.given_up && !server.forgotten && !server.leaving && !server.barred;
  }

  /// Spreads the copies over the servers that are there.
  void place() {
    std::vector<StoreServerId> servers;
    for (const Server& server : servers_)
      if (takes_copies(server)) servers.push_back(server.id);
    std::vector<StoreChain> chains;
    for (const ChainKeeper& keeper : keepers_) chains.push_back(keeper.chain());
    for (ShardPlacement& placement : next_placements(chains, servers, options_.copies))
      keepers_[placement.shard].place(std::move(placement.servers));
  }

  void fail(const Error& error, bool copies_lost = false) {
    if (failure_) return;
    failure_ = error;
    copies_lost_ = copies_lost;
  }

  /// Carries out the keepers' decisions. The threads of the servers send what there is to tell, and tell()
  /// the rest.
  void carry_out() {
    if (copying_) place();
    for (size_t s = 0; s < keepers_.size(); ++s) {
      const std::vector<ChainKeeper::Action> actions = keepers_[s].take_actions();
      for (const ChainKeeper::Action& action : actions) {
        const auto* configure = std::get_if<ChainKeeper::Configure>(&action);
        if (configure == nullptr) continue;
        if (Server* const server = server_of(configure->to)) server->news = true;
      }
      if (!actions.empty()) note(s);
      require_whole(s);
    }
    if (!copying_ || !complete())
      said_complete_ = false;
    else if (!std::exchange(said_complete_, true))
      notes_.push_back(fmt::format("all variables have {} copies", copies()));
  }

  /// What others are to know about a chain that has changed.
  void note(size_t s) {
    const StoreHead head = head_of(s);
    StoreHead& known = known_[s];
    if (known.generation != 0 && head.address != known.address)
      notes_.push_back(fmt::format("what parameter server {} holds is served by {} now", s, head.address));
    if (head == known) return;
    moves_.emplace_back(s, head);
    known = head;
  }

  /// No copy is left if all servers that had a whole one were started again, and the one that was being
  /// filled does not say, when it is asked again, that it was; or if all are silent for good.
  void require_whole(size_t s) {
    const std::span<const StoreServerId> whole = this->whole(keepers_[s].chain());
    bool exist = false;
    bool answer = whole.empty();
    for (const StoreServerId id : whole) {
      const Server* const server = server_of(id);
      exist |= server != nullptr;
      answer |= server != nullptr && (!server->given_up || (server->barred && server->failures == 0));
    }
    if (answer) return void(missing_since_.erase(s));
    const std::chrono::duration<double> since =
        Clock::now() - missing_since_.emplace(s, Clock::now()).first->second;
    if (!exist && since > kLastWord)
      fail(run_error("no copy of what parameter server {} held is left", s), true);
    if (since.count() > options_.patience_seconds)
      fail(run_error("no parameter server with a copy of what server {} held has answered for {:.0f} s", s,
                     since.count()),
           true);
  }

  /// Calls others without the lock. One at a time, so that the last word is the last decision.
  void tell() {
    const std::lock_guard telling(telling_);
    std::vector<std::pair<size_t, StoreHead>> moves;
    std::vector<std::string> notes;
    std::vector<std::string> joined;
    bool joined_changed = false;
    bool failed = false;
    {
      const std::lock_guard lock(mutex_);
      joined_changed = std::exchange(joined_changed_, false);
      for (const Server& server : servers_)
        if (server.joined && !server.forgotten) joined.push_back(server.address);
      moves.swap(moves_);
      notes.swap(notes_);
      failed = failure_ && !std::exchange(told_, true);
    }
    if (failed && options_.failed) options_.failed();
    if (options_.moved)
      for (const auto& [shard, head] : moves) options_.moved(shard, head);
    if (joined_changed && options_.joined_changed) options_.joined_changed(joined);
    if (options_.say)
      for (const std::string& sentence : notes) options_.say(sentence);
  }

  const StoreChainsOptions options_;
  std::mutex telling_;
  mutable std::mutex mutex_;  ///< guards the members below
  std::condition_variable changed_;
  std::vector<ChainKeeper> keepers_;                 ///< of each shard
  std::vector<int64_t> founded_;                     ///< generations; 0: not yet
  std::map<StoreServerId, std::string> address_of_;  ///< also of servers that are no more
  std::deque<Server> servers_;                       ///< those that have joined are the last ones
  bool joined_changed_ = false;
  bool copying_ = false;
  std::optional<Error> failure_;
  bool copies_lost_ = false;  ///< is what failure_ says
  bool told_ = false;         ///< of failure_
  std::map<size_t, StoreHead> known_;
  bool said_complete_ = false;                         ///< after the last loss
  std::map<size_t, Clock::time_point> missing_since_;  ///< shards without a whole copy
  std::vector<std::pair<size_t, StoreHead>> moves_;
  std::vector<std::string> notes_;
  std::vector<std::jthread> threads_;
};

StoreChains::StoreChains(StoreChainsOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
StoreChains::~StoreChains() = default;
std::vector<StoreHead> StoreChains::heads() const { return impl_->heads(); }
void StoreChains::copy() { impl_->copy(); }
void StoreChains::join(const std::string& address) { impl_->join(address); }
std::optional<Error> StoreChains::failure() const { return impl_->failure(); }
bool StoreChains::copies_lost() const { return impl_->copies_lost(); }

}  // namespace telar
