#include "telar/comm/store/store_chain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "telar/comm/store/store_chain_keeper.h"
#include "telar/core/error.h"

namespace telar::test {
namespace {

constexpr size_t kSlots = 4;  // servers at a time
constexpr size_t kClients = 3;
constexpr int64_t kWorks = 10;
constexpr int kSteps = 150;
/// What the mutant adds to a piece of work's number on its way from copy to copy.
constexpr int64_t kOtherWork = 1000;

/// What a defect would do to the protocol.
enum class Mutant {
  none,
  answers_before_the_tail,
  no_generation_check,
  works_stay_behind,
  keeps_what_it_had,     ///< a server that was left out and comes back
  keeps_its_order,       ///< a server in whose place another one is the head
  says_too_early,        ///< a server that is being filled, that it is
  tells_before_storing,  ///< the coordinator
  pulls_from_the_first   ///< a copy, from one that is not the last
};

/// The values of a block: how often each piece of work was applied.
using Counts = std::array<uint8_t, kWorks + 1>;

struct Dice {
  uint64_t state;
  uint64_t roll() {  // splitmix64
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  size_t below(size_t count) { return roll() % count; }
};

template <typename T>
T take_first(std::vector<T>& queue) {
  T first = std::move(queue.front());
  queue.erase(queue.begin());
  return first;
}

/// One seeded history of a block: servers that are killed, stopped and given up although they live, links
/// that are cut, workers that are lost, pushes and answers that are sent again, servers that join, copies and
/// heads that are placed on others, and a coordinator that continues from its record. A server is killed or
/// given up only while another one has all that was answered. Then everything heals.
class History {
 public:
  History(uint64_t seed, Mutant mutant) : dice_{seed}, mutant_(mutant), copies_(2 + dice_.below(2)) {
    for (Server& server : servers_) server = Server(++last_id_);
    for (int64_t work = kWorks; work > 0; --work) todo_.push_back(work);
  }

  /// What went wrong; empty: nothing.
  std::string run() {
    try {
      servers_[0].block.begin();
      servers_[0].registered = true;
      restart_coordinator();
      keeper_->found(servers_[0].id);
      perform_keeper();
      for (int step = 0; step < kSteps && wrong_.empty(); ++step) happen();
      if (wrong_.empty()) heal();
    } catch (const Error& error) {
      return error.what();
    }
    return wrong_;
  }

 private:
  struct Push {
    int64_t generation = 0;
    ChainedBlock::Ticket ticket = 0;
  };
  struct Message {
    int connection = 0;
    ChainMessage message;
    Counts counts = {};  ///< with a copy
  };
  struct Server {
    StoreServerId id = 0;
    ChainedBlock block{0};
    Counts counts = {};
    bool stopped = false;
    bool registered = false;  ///< with the coordinator
    std::vector<Push> pushes;
    std::vector<StoreChain> from_coordinator;
    std::vector<ChainedBlock::Report> to_coordinator;

    Server() = default;
    explicit Server(StoreServerId own) : id(own), block(own) {}
  };
  struct Link {
    int connection = 0;
    int of_hello = 0;  ///< the connection that the receiver of updates has opened last
    std::vector<Message> messages;
  };
  struct Client {
    int64_t work = 0;
    StoreChain known;
    std::array<bool, kWorks + 1> had = {};  ///< what it has pushed, and heard or seen to be applied
  };

  size_t slot_of(StoreServerId id) const {
    for (size_t s = 0; s < kSlots; ++s)
      if (servers_[s].id == id) return s;
    return kSlots;
  }

  // What servers and coordinator do.

  void perform(size_t own) {
    for (ChainedBlock::Action& action : servers_[own].block.take_actions())
      std::visit([this, own](auto& one) { perform(own, one); }, action);
  }
  void perform(size_t own, ChainedBlock::Apply& apply) {
    const int64_t work = apply.update.work % kOtherWork;
    if (++servers_[own].counts[static_cast<size_t>(work)] > 1)
      wrong_ = "work " + std::to_string(work) + " was applied twice to one copy";
    if (mutant_ == Mutant::answers_before_the_tail && servers_[own].block.serves())
      answered(work, servers_[own].block.chain().generation);
  }
  void perform(size_t own, ChainedBlock::Install& /*install*/) { servers_[own].counts = installing_; }
  void perform(size_t own, ChainedBlock::Send& send) {
    const size_t to = slot_of(send.to);
    if (to == kSlots) return;
    ChainMessage& message = send.message;
    const bool down =
        std::holds_alternative<ChainCopy>(message.body) || std::holds_alternative<ChainUpdate>(message.body);
    if (mutant_ == Mutant::works_stay_behind) {
      if (auto* update = std::get_if<ChainUpdate>(&message.body)) update->work += kOtherWork;
      if (auto* copy = std::get_if<ChainCopy>(&message.body)) copy->works.clear();
    }
    Link& link = links_[own][to];
    link.messages.push_back({.connection = down ? link.of_hello : link.connection,
                             .message = std::move(message),
                             .counts = servers_[own].counts});
  }
  void perform(size_t own, ChainedBlock::Answer& answer) {
    if (answer.applied) answered(static_cast<int64_t>(answer.ticket), servers_[own].block.chain().generation);
  }
  void perform(size_t own, ChainedBlock::Report& report) {
    if (keeper_ && servers_[own].registered) servers_[own].to_coordinator.push_back(report);
  }

  void answered(int64_t work, int64_t generation) {
    answered_[static_cast<size_t>(work)] = true;
    if (dice_.below(4) == 0) return;  // the answer is lost on its way
    for (Client& client : clients_)
      if (client.work == work) {
        client.work = 0;
        // Another one may have pushed it in a generation of which this one has not heard.
        client.had[static_cast<size_t>(work)] = generation <= client.known.generation;
      }
  }

  void perform_keeper() {
    const bool late = mutant_ == Mutant::tells_before_storing;
    const StoreChain before = record_;
    for (ChainKeeper::Action& action : keeper_->take_actions()) {
      if (const auto* record = std::get_if<ChainKeeper::Record>(&action)) {
        record_ = record->chain;
        if (!late && !healing_ && dice_.below(20) == 0) return lose_coordinator();
        continue;
      }
      const auto& configure = std::get<ChainKeeper::Configure>(action);
      const size_t to = slot_of(configure.to);
      if (to < kSlots && servers_[to].registered) servers_[to].from_coordinator.push_back(configure.chain);
    }
    if (late && !healing_ && dice_.below(20) == 0) {
      record_ = before;
      lose_coordinator();
    }
  }

  // What arrives.

  void deliver(size_t from, size_t to) {
    Link& link = links_[from][to];
    if (link.messages.empty() || servers_[to].stopped) return;
    Message message = take_first(link.messages);
    if (message.connection != link.connection) return;
    if (std::holds_alternative<ChainHello>(message.message.body)) links_[to][from].of_hello = link.connection;
    ChainedBlock& block = servers_[to].block;
    if (mutant_ == Mutant::no_generation_check) message.message.generation = block.chain().generation;
    installing_ = message.counts;
    block.receive(message.message);
    perform(to);
  }

  void deliver_push(size_t to) {
    Server& server = servers_[to];
    if (server.pushes.empty() || server.stopped) return;
    const Push push = take_first(server.pushes);
    const auto work = static_cast<int64_t>(push.ticket);
    const size_t begin = 64 * (push.ticket % 2);
    server.block.push(push.generation, push.ticket, begin, begin + 64, work);
    perform(to);
  }

  void deliver_of_coordinator(size_t own) {
    Server& server = servers_[own];
    if (!server.from_coordinator.empty() && !server.stopped) {
      StoreChain chain = take_first(server.from_coordinator);
      if (mutant_ == Mutant::keeps_what_it_had) chain.joins_since = 0;
      if (mutant_ == Mutant::keeps_its_order) chain.ordered_since = 0;
      server.block.configure(chain);
      perform(own);
    } else if (!server.to_coordinator.empty() && keeper_) {
      ChainedBlock::Report report = take_first(server.to_coordinator);
      if (mutant_ == Mutant::no_generation_check) report.generation = keeper_->chain().generation;
      if (mutant_ == Mutant::says_too_early) report.whole = true;
      keeper_->reported(server.id, report);
      perform_keeper();
    }
  }

  void push(Client& client) {
    if (client.known.servers.empty()) return;
    const size_t to = slot_of(client.known.servers.front());
    if (to < kSlots)
      servers_[to].pushes.push_back(
          {.generation = client.known.generation, .ticket = static_cast<uint64_t>(client.work)});
  }

  void act(Client& client) {
    if (client.work == 0 && !todo_.empty()) {
      client.work = todo_.back();
      todo_.pop_back();
    }
    if (client.work != 0) push(client);
  }

  /// From the copy. What is seen there counts as answered.
  void pull(const Client& client) {
    const StoreChain& chain = client.known;
    if (chain.servers.empty()) return;
    const bool first = mutant_ == Mutant::pulls_from_the_first;
    const size_t from = slot_of(first ? chain.servers.front() : chain.servers.back());
    if (from == kSlots || servers_[from].stopped) return;
    const Server& server = servers_[from];
    if (server.block.chain().generation != chain.generation) return;
    if (first ? !server.block.whole() : !server.block.acknowledged()) return;
    for (size_t work = 1; work <= kWorks; ++work) {
      if (server.counts[work] > 0) {
        answered(static_cast<int64_t>(work), chain.generation);
      } else if (client.had[work]) {
        wrong_ = "a pull misses work " + std::to_string(work) + ", which was answered";
      }
    }
  }

  void register_server(size_t own) {
    if (!keeper_ || servers_[own].registered) return;
    servers_[own].registered = true;
    keeper_->arrived(servers_[own].id);
    perform_keeper();
  }

  // What breaks.

  void give_up(StoreServerId id) {
    if (!keeper_) return;
    if (const size_t own = slot_of(id); own < kSlots) {
      if (!may_lose(own)) return;  // a second failure at the same time
      disconnect(servers_[own]);
    }
    keeper_->given_up(id);
    perform_keeper();
  }

  static void disconnect(Server& server) {
    server.registered = false;
    server.to_coordinator.clear();  // the coordinator's last words still arrive
  }

  void cut(size_t one, size_t other) {
    for (auto [from, to] : {std::pair(one, other), std::pair(other, one)}) {
      ++links_[from][to].connection;
      links_[from][to].messages.clear();
    }
  }

  void cut_and_connect(size_t one, size_t other) {
    cut(one, other);
    for (const size_t end : {one, other}) {
      servers_[end].block.connected();
      perform(end);
    }
  }

  /// Whether another server has all that was answered, and the coordinator will find it.
  bool may_lose(size_t own) const {
    for (size_t s = 0; s < kSlots; ++s) {
      if (s == own || std::ranges::find(record_.servers, servers_[s].id) == record_.servers.end()) continue;
      const bool joins = record_.joins_since > 0 && record_.servers.back() == servers_[s].id;
      const ChainedBlock& block = servers_[s].block;
      if (!joins || (block.whole() && block.chain().generation >= record_.joins_since)) return true;
    }
    return false;
  }

  void kill(size_t own) {
    if (!may_lose(own)) return;
    for (size_t other = 0; other < kSlots; ++other)
      if (other != own) cut(own, other);
    servers_[own] = Server(++last_id_);
  }

  void lose_coordinator() {
    keeper_.reset();
    for (Server& server : servers_) disconnect(server);
  }

  void restart_coordinator() { keeper_.emplace(record_); }

  /// The copies are to be on any of the servers that the coordinator knows.
  void place() {
    std::vector<StoreServerId> places;
    for (const Server& server : servers_)
      if (server.registered) places.push_back(server.id);
    if (!keeper_ || places.size() < copies_) return;
    if (!healing_)
      for (size_t i = places.size() - 1; i > 0; --i) std::swap(places[i], places[dice_.below(i + 1)]);
    places.resize(copies_);
    keeper_->place(places);
    perform_keeper();
  }

  void lose(Client& client) {
    if (client.work != 0) todo_.push_back(client.work);
    client = {};
  }

  StoreServerId any_of_the_record() {
    return record_.servers.empty() ? 0 : record_.servers[dice_.below(record_.servers.size())];
  }

  void happen() {
    const size_t own = dice_.below(kSlots);
    const size_t other = (own + 1 + dice_.below(kSlots - 1)) % kSlots;
    Client& client = clients_[dice_.below(kClients)];
    const size_t what = dice_.below(69);
    if (what < 30) return deliver(own, other);
    if (what < 38) return deliver_push(own);
    if (what < 44) return act(client);
    if (what < 46) return void(client.known = record_);
    if (what < 54) return deliver_of_coordinator(own);
    if (what < 57) return register_server(own);
    if (what < 59) return give_up(any_of_the_record());
    if (what == 59) return kill(own);
    if (what == 60) return void(servers_[own].stopped = !servers_[own].stopped);
    if (what == 61) return cut_and_connect(own, other);
    if (what == 62) return lose(client);
    if (what > 65) return pull(client);
    if (what > 63) return place();
    if (keeper_)
      lose_coordinator();
    else
      restart_coordinator();
  }

  // The end.

  bool deliver_all() {
    bool some = false;
    for (size_t own = 0; own < kSlots; ++own) {
      Server& server = servers_[own];
      for (size_t from = 0; from < kSlots; ++from)
        for (; from != own && !links_[from][own].messages.empty(); some = true) deliver(from, own);
      for (; !server.pushes.empty(); some = true) deliver_push(own);
      for (; !server.from_coordinator.empty() || !server.to_coordinator.empty(); some = true)
        deliver_of_coordinator(own);
    }
    return some;
  }

  void heal() {
    healing_ = true;
    if (!keeper_) restart_coordinator();
    for (Server& server : servers_) server.stopped = false;
    for (size_t own = 0; own < kSlots; ++own) register_server(own);
    for (int round = 0; round < 100 && wrong_.empty(); ++round) {
      bool busy = deliver_all();
      for (const StoreServerId id : std::vector(record_.servers))
        if (slot_of(id) == kSlots) give_up(id);
      place();
      for (Client& client : clients_) {
        client.known = record_;
        act(client);
        busy |= client.work != 0;
      }
      if (!busy && todo_.empty()) return audit();
    }
    if (wrong_.empty()) wrong_ = "a push is never answered";
  }

  void audit() {
    for (size_t place = 0; place < copies_; ++place)
      if (record_.servers.size() != copies_ || record_.servers[place] != servers_[place].id ||
          record_.joins_since != 0)
        wrong_ = "the copies are not where they are to be";
    for (const StoreServerId id : record_.servers) {
      const Counts& counts = servers_[slot_of(id)].counts;
      for (size_t work = 1; work <= kWorks; ++work)
        if (answered_[work] && counts[work] != 1)
          wrong_ = "work " + std::to_string(work) + " was answered, and a copy has it " +
                   std::to_string(counts[work]) + " times";
    }
  }

  Dice dice_;
  const Mutant mutant_;
  const size_t copies_;
  StoreServerId last_id_ = 0;
  std::array<Server, kSlots> servers_;
  std::array<std::array<Link, kSlots>, kSlots> links_;
  std::array<Client, kClients> clients_;
  std::optional<ChainKeeper> keeper_;
  StoreChain record_;
  std::vector<int64_t> todo_;
  std::array<bool, kWorks + 1> answered_ = {};
  Counts installing_ = {};
  bool healing_ = false;
  std::string wrong_;
};

/// The first of these histories that goes wrong.
std::optional<std::string> first_wrong(uint64_t histories, Mutant mutant) {
  for (uint64_t seed = 1; seed <= histories; ++seed)
    if (const std::string wrong = History(seed, mutant).run(); !wrong.empty())
      return "history " + std::to_string(seed) + ": " + wrong;
  return std::nullopt;
}

/// 1,000,000 take half a minute.
uint64_t histories() {
  const char* given =
      std::getenv("TELAR_CHAIN_HISTORIES");  // NOLINT(concurrency-mt-unsafe): nobody changes it
  return given == nullptr ? 20'000 : std::stoull(given);
}

TEST(StoreChain, NothingAnsweredIsLostOrAppliedTwice) {
  EXPECT_EQ(first_wrong(histories(), Mutant::none), std::nullopt);
}

TEST(StoreChain, DefectsAreFound) {
  for (const Mutant mutant :
       {Mutant::answers_before_the_tail, Mutant::no_generation_check, Mutant::works_stay_behind,
        Mutant::keeps_what_it_had, Mutant::keeps_its_order, Mutant::says_too_early,
        Mutant::tells_before_storing, Mutant::pulls_from_the_first}) {
    const std::optional<std::string> wrong = first_wrong(20'000, mutant);
    EXPECT_TRUE(wrong.has_value()) << "mutant " << static_cast<int>(mutant);
    if (wrong) RecordProperty("mutant_" + std::to_string(static_cast<int>(mutant)), *wrong);
  }
}

/// Servers 1, 2, 3 have two updates, of which 3 has one. 3 becomes the head, and is lost before 2 has heard
/// of that. 1 may have 3's updates by then, so 2 must not keep its own.
TEST(StoreChain, AServerThatHasMissedAnOrderGetsACopy) {
  ChainKeeper keeper({.generation = 1, .servers = {1, 2, 3}});
  keeper.place({3, 1, 2});
  EXPECT_EQ(keeper.chain().ordered_since, 2);
  keeper.given_up(3);
  EXPECT_EQ(keeper.chain().generation, 3);
  EXPECT_EQ(keeper.chain().servers, (std::vector<StoreServerId>{1, 2}));
  EXPECT_EQ(keeper.chain().ordered_since, 2);

  ChainedBlock second(2);
  second.begin();
  second.configure({.generation = 1, .servers = {1, 2, 3}});
  for (const int64_t sequence : {1, 2})
    second.receive({.generation = 1, .body = ChainUpdate{sequence, 0, 64, sequence}});
  second.take_actions();
  second.configure(keeper.chain());
  EXPECT_TRUE(second.whole()) << "it has what was answered";
  EXPECT_TRUE(second.awaits_copy());
  EXPECT_FALSE(second.acknowledged()) << "it is the last one, but others may not have its second update";
  for (const ChainedBlock::Action& action : second.take_actions()) {
    const auto* sent = std::get_if<ChainedBlock::Send>(&action);
    if (sent == nullptr) continue;
    const auto* hello = std::get_if<ChainHello>(&sent->message.body);
    ASSERT_NE(hello, nullptr) << "it confirms nothing";
    EXPECT_FALSE(hello->whole);
  }
  second.receive({.generation = 3, .body = ChainCopy{1, {}}});
  EXPECT_FALSE(second.awaits_copy());
  EXPECT_TRUE(second.acknowledged());
  EXPECT_THROW(second.receive({.generation = 3, .body = ChainUpdate{3, 0, 64, 3}}), Error)
      << "its last update is the first one";
}

TEST(StoreChain, APushWaitsForOneWhoJoinsOnlyWhenItHasAskedForTheBlock) {
  ChainedBlock head(1);
  head.begin();
  head.configure({.generation = 1, .servers = {1}});
  head.configure({.generation = 2, .servers = {1, 2}, .joins_since = 2});
  head.take_actions();
  head.push(2, 7, 0, 64, 1);
  bool answered = false;
  for (const ChainedBlock::Action& action : head.take_actions())
    answered |= std::holds_alternative<ChainedBlock::Answer>(action);
  EXPECT_TRUE(answered) << "it would wait until the copies of all blocks before it have gone";
}

}  // namespace
}  // namespace telar::test
