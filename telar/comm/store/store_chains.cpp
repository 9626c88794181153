#include "telar/comm/store/store_chains.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "telar/comm/grpc_security.h"
#include "telar/comm/store/store.grpc.pb.h"
#include "telar/comm/store/store_calls.h"
#include "telar/comm/store/store_chain_keeper.h"

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
constexpr auto kChainTick = 50ms;
constexpr int kLargestWord = 64 << 20;

}  // namespace

class StoreChains::Impl {
 public:
  explicit Impl(StoreChainsOptions options) : options_(std::move(options)) {
    const size_t servers = options_.addresses.size();
    for (size_t s = 0; s < options_.shards.size(); ++s)
      keepers_.emplace_back(options_.copies, StoreChain{.generation = options_.generations_before});
    founded_.resize(keepers_.size());
    for (const std::string& address : options_.addresses) {
      servers_.emplace_back();
      servers_.back().stub =
          store::ParameterStore::NewStub(secure_channel(address, options_.security, kLargestWord));
    }
    for (size_t i = 0; i < servers; ++i)
      threads_.emplace_back([this, i](const std::stop_token& over) { ask_for_ever(i, over); });
    wait([this] {
      for (size_t s = 0; s < keepers_.size(); ++s) {
        const auto known = servers_[s].generations.find(s);
        if (known == servers_[s].generations.end() || known->second != founded_[s]) return false;
      }
      return true;
    });
  }

  void copy() {
    {
      const std::lock_guard lock(mutex_);
      copying_ = true;
      for (size_t s = 0; s < keepers_.size(); ++s)
        for (const size_t server : places(s))
          // Who has never answered arrives with its first answer.
          if (servers_[server].id != 0 && !servers_[server].leaving) keepers_[s].arrived(servers_[server].id);
      carry_out();
    }
    tell();
    wait([this] {
      return std::ranges::all_of(keepers_, [this](const ChainKeeper& keeper) { return complete(keeper); });
    });
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

 private:
  struct Server {
    std::unique_ptr<store::ParameterStore::Stub> stub;
    StoreServerId id = 0;  ///< 0: it has never answered
    bool given_up = false;
    std::optional<Clock::time_point> leaving = {};  ///< since when it has asked to be left out
    std::map<size_t, int64_t> generations = {};     ///< of the shards that it has, as it has said
    bool news = false;                              ///< there is something to tell it
    int failures = 0;                               ///< in a row
    Clock::time_point answered = Clock::now();
    grpc::Status status = {};
  };

  /// The servers that may have a copy of a shard.
  std::vector<size_t> places(size_t shard) const {
    std::vector<size_t> all;
    const size_t servers = options_.addresses.size();
    for (size_t i = 0; i < std::min(options_.copies, servers); ++i) all.push_back((shard + i) % servers);
    return all;
  }
  bool has_place(size_t shard, size_t server) const {
    const std::vector<size_t> all = places(shard);
    return std::ranges::find(all, server) != all.end();
  }
  /// The present server of an id, among those of a shard.
  std::optional<size_t> server_of(size_t shard, StoreServerId id) const {
    for (const size_t server : places(shard))
      if (servers_[server].id == id) return server;
    return std::nullopt;
  }
  bool complete(const ChainKeeper& keeper) const {
    return keeper.chain().joins_since == 0 &&
           keeper.chain().servers.size() >= std::min(options_.copies, options_.addresses.size());
  }

  StoreHead head_of(size_t shard) const {
    const StoreChain& chain = keepers_[shard].chain();
    return {.address = address_of_.at(chain.servers.front()), .generation = chain.generation};
  }

  template <typename Condition>
  void wait(const Condition& condition) {
    const auto end = Clock::now() + std::chrono::duration<double>(options_.patience_seconds);
    std::unique_lock lock(mutex_);
    while (!condition()) {
      if (failure_) throw Error(*failure_);
      if (options_.stop.stop_requested())
        throw run_error("The parameter servers were not waited for: the run is being stopped");
      if (Clock::now() > end) {
        for (size_t i = 0; i < servers_.size(); ++i)
          if (servers_[i].failures > 0)
            throw error_of(servers_[i].status, "The parameter server " + options_.addresses[i]);
        throw run_error("the copies of the parameter servers' blocks are not there after {:.0f} s",
                        options_.patience_seconds);
      }
      changed_.wait_for(lock, kChainTick);
    }
  }

  void ask_for_ever(size_t own, const std::stop_token& over) {
    Server& server = servers_[own];
    while (!over.stop_requested()) {
      store::ConfigureRequest request;
      {
        const std::lock_guard lock(mutex_);
        server.news = false;
        describe(own, request);
      }
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
        status.ok() ? answered(own, reply, asked) : failed(own, status);
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
  void describe(size_t own, store::ConfigureRequest& request) const {
    request.set_job(options_.job);
    const Server& server = servers_[own];
    for (size_t s = 0; s < keepers_.size(); ++s) {
      const StoreChain& chain = keepers_[s].chain();
      if (!has_place(s, own) || std::ranges::find(chain.servers, server.id) == chain.servers.end()) continue;
      store::Chain& message = *request.add_chains();
      message.set_shard(static_cast<uint32_t>(s + 1));
      message.set_founded(founded_[s]);
      message.set_generation(chain.generation);
      message.set_joins_since(chain.joins_since);
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
    request.set_left(left(own));
  }

  /// Whether the heads of all chains in which this server was have heard that they are.
  bool left(size_t own) const {
    if (!servers_[own].leaving) return false;
    for (size_t s = 0; s < keepers_.size(); ++s) {
      if (!has_place(s, own)) continue;
      const StoreChain& chain = keepers_[s].chain();
      const std::optional<size_t> head = server_of(s, chain.servers.front());
      if (!head || std::ranges::find(chain.servers, servers_[own].id) != chain.servers.end()) return false;
      const auto known = servers_[*head].generations.find(s);
      if (known == servers_[*head].generations.end() || known->second != chain.generation) return false;
    }
    return true;
  }

  /// `asked`: when.
  void answered(size_t own, const store::ConfigureReply& reply, Clock::time_point asked) {
    Server& server = servers_[own];
    server.failures = 0;
    server.answered = Clock::now();
    const bool another = reply.id() != server.id;
    if (another || server.given_up) {
      const StoreServerId before = std::exchange(server.id, reply.id());
      server.given_up = false;
      server.leaving.reset();
      server.generations.clear();
      address_of_[server.id] = options_.addresses[own];
      for (size_t s = 0; s < keepers_.size(); ++s) {
        if (!has_place(s, own)) continue;
        if (another && before != 0) keepers_[s].given_up(before);
        if (own == s && founded_[s] == 0) {
          keepers_[s].found(server.id);
          founded_[s] = keepers_[s].chain().generation;
        }
        if (copying_) keepers_[s].arrived(server.id);
      }
    }
    if (reply.leaving() && !server.leaving) server.leaving = server.answered;
    for (const store::ShardState& state : reply.shards()) {
      const size_t s = state.shard() - 1;
      if (state.shard() < 1 || s >= keepers_.size() || !has_place(s, own)) continue;
      if (state.generation() > keepers_[s].chain().generation)
        fail(run_error(
            "another coordinator of this run has taken the parameter server {} over (or the clock of this machine was set back)",
            options_.addresses[own]));
      server.generations[s] = state.generation();
      keepers_[s].reported(server.id, {.generation = state.generation(), .whole = state.whole()});
      if (!state.whole() || state.generation() != keepers_[s].chain().generation) continue;
      // Who leaves may do so now: this one is there, and has everything.
      for (const size_t other : places(s))
        if (other != own && servers_[other].leaving && asked > *servers_[other].leaving)
          keepers_[s].given_up(servers_[other].id);
    }
  }

  void failed(size_t own, const grpc::Status& status) {
    Server& server = servers_[own];
    ++server.failures;
    server.status = status;
    if (is_refusal(status)) fail(error_of(status, "The parameter server " + options_.addresses[own]));
    if (server.id == 0 || server.given_up || server.failures < 2 || Clock::now() - server.answered < kSilence)
      return;
    server.given_up = true;
    for (size_t s = 0; s < keepers_.size(); ++s)
      if (has_place(s, own)) keepers_[s].given_up(server.id);
  }

  void fail(const Error& error) {
    if (!failure_) failure_ = error;
  }

  /// Carries out the keepers' decisions. The threads of the servers send what there is to tell, and tell()
  /// the rest.
  void carry_out() {
    for (size_t s = 0; s < keepers_.size(); ++s) {
      const std::vector<ChainKeeper::Action> actions = keepers_[s].take_actions();
      for (const ChainKeeper::Action& action : actions) {
        const auto* configure = std::get_if<ChainKeeper::Configure>(&action);
        if (configure == nullptr) continue;
        if (const std::optional<size_t> server = server_of(s, configure->to)) servers_[*server].news = true;
      }
      if (!actions.empty()) note(s);
      require_whole(s);
    }
  }

  /// What others are to know about a chain that has changed.
  void note(size_t s) {
    const StoreHead head = head_of(s);
    StoreHead& known = known_[s];
    const bool complete = this->complete(keepers_[s]);
    if (known.generation != 0 && head.address != known.address)
      notes_.push_back(fmt::format("what parameter server {} holds is served by {} now", s, head.address));
    if (complete && incomplete_.erase(s) > 0)
      notes_.push_back(
          fmt::format("what parameter server {} holds has {} copies", s, keepers_[s].chain().servers.size()));
    if (!complete && copying_ && head.generation != known.generation) incomplete_.insert(s);
    if (head.generation == known.generation) return;
    moves_.emplace_back(s, head);
    known = head;
  }

  /// No copy is left if all servers that had a whole one were started again, and the one that was being
  /// filled does not say, when it is asked again, that it was.
  void require_whole(size_t s) {
    const StoreChain& chain = keepers_[s].chain();
    const size_t whole = chain.servers.size() - (chain.joins_since > 0 ? 1 : 0);
    for (size_t i = 0; i < whole; ++i)
      if (server_of(s, chain.servers[i])) return void(missing_since_.erase(s));
    if (whole > 0 && Clock::now() - missing_since_.emplace(s, Clock::now()).first->second > kLastWord)
      fail(run_error("no copy of what parameter server {} held is left", s));
  }

  /// Calls others without the lock. One at a time, so that the last word is the last decision.
  void tell() {
    const std::lock_guard telling(telling_);
    std::vector<std::pair<size_t, StoreHead>> moves;
    std::vector<std::string> notes;
    bool failed = false;
    {
      const std::lock_guard lock(mutex_);
      moves.swap(moves_);
      notes.swap(notes_);
      failed = failure_ && !std::exchange(told_, true);
    }
    if (failed && options_.failed) options_.failed();
    if (options_.moved)
      for (const auto& [shard, head] : moves) options_.moved(shard, head);
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
  std::vector<Server> servers_;
  bool copying_ = false;
  std::optional<Error> failure_;
  bool told_ = false;  ///< of failure_
  std::map<size_t, StoreHead> known_;
  std::set<size_t> incomplete_;
  std::map<size_t, Clock::time_point> missing_since_;  ///< shards without a whole copy
  std::vector<std::pair<size_t, StoreHead>> moves_;
  std::vector<std::string> notes_;
  std::vector<std::jthread> threads_;
};

StoreChains::StoreChains(StoreChainsOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
StoreChains::~StoreChains() = default;
std::vector<StoreHead> StoreChains::heads() const { return impl_->heads(); }
void StoreChains::copy() { impl_->copy(); }
std::optional<Error> StoreChains::failure() const { return impl_->failure(); }

}  // namespace telar
