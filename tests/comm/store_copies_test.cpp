#include <array>
#include <atomic>
#include <barrier>
#include <random>
#include <thread>

#include "relay.h"
#include "store_fixture.h"
#include "support/sentences.h"
#include "telar/comm/store/store_block_state.h"
#include "telar/comm/store/store_chains.h"

namespace telar {
namespace {

constexpr size_t kCopiedFloats = 600'000;  // three blocks

/// Two servers, each of which has a copy of what the other one holds. A test may add others, which join.
class StoreCopies : public StoreTest {
 protected:
  void SetUp() override {
    for (size_t s = 0; s < 2; ++s) {
      servers_.push_back(patient("127.0.0.1:0"));
      addresses_.push_back(servers_[s]->address());
    }
  }

  void TearDown() override {
    if (HasFailure()) ADD_FAILURE() << "what was said:\n" << chain_log_.all() << "\n" << log_.all();
  }

  /// Returns its number.
  size_t join_another() {
    servers_.push_back(patient("127.0.0.1:0"));
    addresses_.push_back(servers_.back()->address());
    chains_->join(addresses_.back());
    return servers_.size() - 1;
  }

  /// A round waits for members that have not heard yet where its server is.
  std::unique_ptr<StoreServer> patient(const std::string& listen) {
    StoreServerOptions options = server_options(listen, "");
    options.round_seconds = 20;
    options.shared_memory = servers_share_;
    return std::make_unique<StoreServer>(options);
  }

  std::unique_ptr<StoreServer> of_another_job(const std::string& listen) {
    std::unique_ptr<StoreServer> server = serve(listen);
    StoreClientOptions options = client_options(*server, 1);
    options.job = "another job";
    StoreClient(options).create(layout_of(64), "plain");
    return server;
  }

  StoreChainsOptions chains_options() {
    const StoreChainsOptions::Shard shard{.layout = layout_of(kCopiedFloats), .description = "plain"};
    return {.addresses = {addresses_[0], addresses_[1]},
            .joined = joined_,
            .security = {},
            .job = "job",
            .shards = {shard, shard},
            .generations_before = 1000 * ++coordinators_,
            .moved = [this](size_t of, const StoreHead& head) { moved(of, head); },
            .joined_changed =
                [this](const std::vector<std::string>& joined) {
                  const std::lock_guard lock(mutex_);
                  joined_ = joined;
                },
            .failed = {},
            .say = chain_log_.say(),
            .patience_seconds = 10,
            .stop = {}};
  }

  /// A client of one of the two shards, which is told where it is.
  StoreClient& client(size_t shard, uint32_t member) {
    std::unique_lock lock(mutex_);
    clients_.push_back(
        {shard, std::make_unique<StoreClient>(StoreClientOptions{.address = heads_[shard].address,
                                                                 .job = "job",
                                                                 .member = member,
                                                                 .shared_memory = shares_memory_,
                                                                 .patience_seconds = 20,
                                                                 .shard = static_cast<uint32_t>(shard + 1),
                                                                 .generation = heads_[shard].generation,
                                                                 .copy = heads_[shard].copy,
                                                                 .is_here = is_here_})});
    StoreClient& made = *clients_.back().client;
    lock.unlock();
    made.attach();
    return made;
  }

  void begin(float first = 0) {
    chains_ = std::make_unique<StoreChains>(chains_options());
    take_heads();
    for (size_t shard = 0; shard < 2; ++shard) {
      const std::vector<float> values(kCopiedFloats, first);
      client(shard, 0).write("", values, 0);
    }
    chains_->copy();
  }

  void kill(size_t server) { servers_[server].reset(); }
  void restart(size_t server) { servers_[server] = patient(addresses_[server]); }
  /// Once at the start, and once after each loss.
  void wait_for_copies(int times) {
    const std::string sentence = "all variables have 2 copies";
    for (int i = 0; i < 1000 && count(sentence) < times; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ASSERT_GE(count(sentence), times) << chain_log_.all() << log_.all();
  }
  int count(const std::string& sentence) const {
    const std::string all = chain_log_.all();
    int count = 0;
    for (size_t at = all.find(sentence); at != std::string::npos; at = all.find(sentence, at + 1)) ++count;
    return count;
  }

  static void wait_until(const std::function<bool()>& condition, const char* what) {
    bool met = condition();
    for (int i = 0; i < 6000 && !met; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      met = condition();
    }
    ASSERT_TRUE(met) << what;
  }
  /// Of the two shards; a server that is being filled has one, too.
  size_t copies_on(size_t server) const {
    constexpr size_t kArenas = 2;
    return servers_[server] ? servers_[server]->memory().arenas / (kArenas * kCopiedFloats * sizeof(float))
                            : 0;
  }
  /// Nothing is being moved, and no server has two copies more than another.
  bool even() const {
    size_t all = 0;
    size_t least = 4;
    size_t most = 0;
    for (size_t s = 0; s < servers_.size(); ++s) {
      if (!servers_[s]) continue;
      const size_t copies = copies_on(s);
      all += copies;
      least = std::min(least, copies);
      most = std::max(most, copies);
    }
    return all == 4 && most <= least + 1;
  }

  static StoreReport push(StoreClient& client, int64_t work) {
    fill(client, -1);
    StoreExchange exchange = whole(client);
    exchange.work = work;
    client.start(exchange);
    return client.finish();
  }

  StoreHead head(size_t shard) {
    const std::lock_guard lock(mutex_);
    return heads_[shard];
  }
  void take_heads() {
    const std::lock_guard lock(mutex_);
    heads_ = chains_->heads();
  }
  void forget_clients() {
    const std::lock_guard lock(mutex_);
    clients_.clear();
  }
  void moved(size_t shard, const StoreHead& head) {
    const std::lock_guard lock(mutex_);
    if (heads_.empty()) return;
    heads_[shard] = head;
    for (const Known& known : clients_)
      if (known.shard == shard) known.client->move(head);
  }

  /// What every float of a shard is, and the state of its update.
  void expect_everywhere(StoreClient& client, float value) {
    std::vector<float> floats(kCopiedFloats);
    client.read("", floats);
    EXPECT_EQ(floats, std::vector<float>(kCopiedFloats, value));
    client.read("steps", floats);
    EXPECT_EQ(floats, std::vector<float>(kCopiedFloats, value)) << "the state moves, too";
  }

  struct Known {
    size_t shard;
    std::unique_ptr<StoreClient> client;
  };
  std::vector<std::unique_ptr<StoreServer>> servers_;
  std::vector<std::string> addresses_;
  SentenceLog chain_log_;
  int64_t coordinators_ = 0;
  std::mutex mutex_;
  std::vector<StoreHead> heads_;
  std::vector<std::string> joined_;  ///< as the next coordinator is to know them
  std::vector<Known> clients_;
  std::unique_ptr<StoreChains> chains_;
  bool shares_memory_ = false;
  std::function<bool(const std::string&)> is_here_ = on_this_host;
  bool servers_share_ = true;
};

TEST_F(StoreCopies, ACopyIsMadeOnAServerThatAnswersLate) {
  kill(1);
  StoreChainsOptions one = chains_options();
  one.shards.resize(1);
  chains_ = std::make_unique<StoreChains>(one);
  take_heads();
  client(0, 0).write("", std::vector<float>(kCopiedFloats, 0), 0);
  std::jthread late([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    restart(1);
  });
  chains_->copy();
  late.join();
  StoreClient& worker = client(0, 1);
  EXPECT_TRUE(push(worker, 1).finite);
  kill(0);
  EXPECT_EQ(push(worker, 2).lost_updates, 0);
}

TEST_F(StoreCopies, AnAnsweredPushSurvivesItsServer) {
  begin();
  StoreClient& worker = client(0, 1);
  for (int64_t work = 1; work <= 5; ++work) EXPECT_TRUE(push(worker, work).finite);
  kill(0);
  const auto lost = std::chrono::steady_clock::now();
  EXPECT_EQ(push(worker, 6).lost_updates, 0);
  EXPECT_LT(std::chrono::steady_clock::now() - lost, std::chrono::seconds(10));  // 1.5 s on an idle machine
  push(worker, 6);
  push(worker, 3);
  expect_everywhere(worker, 6);
  EXPECT_TRUE(chain_log_.hears("what parameter server 0 holds is served by " + addresses_[1]));
  EXPECT_EQ(worker.losses(), StoreLosses{}) << "another head is no restart";
}

TEST_F(StoreCopies, AMemberSharesMemoryWithEachHead) {
  shares_memory_ = true;
  begin();
  StoreClient& worker = client(0, 1);
  for (int64_t work = 1; work <= 6; ++work) {
    if (work == 4) kill(0);
    EXPECT_TRUE(push(worker, work).finite);
    EXPECT_TRUE(worker.traffic().shared_memory);
    EXPECT_EQ(worker.incoming()[kCopiedFloats - 1], static_cast<float>(work));
  }
  expect_everywhere(worker, 6);
}

/// What was pulled last, if it is the same everywhere.
float pulled(const StoreClient& client) {
  const std::span<const float> values = client.incoming();
  EXPECT_EQ(std::ranges::count(values, values[0]), std::ssize(values));
  return values[0];
}

TEST_F(StoreCopies, AMemberPullsFromTheCopyOnItsHost) {
  begin();
  StoreClient& far = client(0, 2);
  is_here_ = [this](const std::string& address) { return address == addresses_[1]; };
  StoreClient& worker = client(0, 1);
  constexpr size_t kBytes = kCopiedFloats * sizeof(float);
  for (int64_t work = 1; work <= 10; work += 2) {
    EXPECT_EQ(push(worker, work).staleness, work == 1 ? 0 : 1) << "the head knows what was pulled elsewhere";
    EXPECT_EQ(pulled(worker), static_cast<float>(work)) << "its own push, which was answered, and all before";
    push(far, work + 1);
  }
  EXPECT_EQ(worker.traffic().from_copy, 5 * kBytes);
  EXPECT_LT(worker.traffic().received, kBytes / 100);
  EXPECT_EQ(far.traffic().from_copy, 0U) << "the head is as near";
  EXPECT_GT(far.traffic().received, 4 * kBytes) << "the last answer may not be counted yet";
}

TEST_F(StoreCopies, AMemberWhoseCopyIsLostPullsFromTheHead) {
  begin();
  is_here_ = [this](const std::string& address) {
    const std::lock_guard lock(mutex_);
    return address != heads_[0].address;
  };
  StoreClient& worker = client(0, 1);
  const auto pulls_from_copy = [&](int64_t work) {
    const uint64_t before = worker.traffic().from_copy;
    push(worker, work);
    EXPECT_EQ(pulled(worker), static_cast<float>(work));
    return worker.traffic().from_copy > before;
  };
  EXPECT_TRUE(pulls_from_copy(1));
  kill(1);
  EXPECT_FALSE(pulls_from_copy(2));
  restart(1);
  wait_for_copies(2);
  int64_t work = 3;
  wait_until([&] { return pulls_from_copy(work++); }, "pulls from the copy that has returned");
}

TEST_F(StoreCopies, ACopyThatCannotBeReachedIsNamedAndTheHeadAnswers) {
  begin();
  SentenceLog said;
  StoreClient member({.address = head(0).address,
                      .job = "job",
                      .member = 1,
                      .shard = 1,
                      .generation = head(0).generation,
                      .copy = "127.0.0.1:1",
                      .is_here = [](const std::string& address) { return address == "127.0.0.1:1"; },
                      .say = said.say()});
  member.attach();
  push(member, 1);
  EXPECT_EQ(pulled(member), 1);
  EXPECT_EQ(member.traffic().from_copy, 0U);
  EXPECT_TRUE(said.hears("Shard 0 of the parameter servers is not pulled from its copy at 127.0.0.1:1: "));
}

/// Its server has heard of the next chain, the member has not, as when only its coordinator is cut off.
TEST_F(StoreCopies, ACopyAnswersNoPullsOfAnEarlierGeneration) {
  begin();
  StoreClient member({.address = head(0).address,
                      .job = "job",
                      .member = 1,
                      .patience_seconds = 1,
                      .shard = 1,
                      .generation = head(0).generation,
                      .copy = addresses_[1],
                      .is_here = [this](const std::string& address) { return address == addresses_[1]; }});
  member.attach();
  EXPECT_TRUE(push(member, 1).finite);
  const uint64_t before = member.traffic().from_copy;
  EXPECT_GT(before, 0U);
  kill(0);
  EXPECT_TRUE(chain_log_.hears("what parameter server 0 holds is served by " + addresses_[1]));
  push(client(0, 2), 2);  // the copy is the head, and may have more than was answered
  member.start({.begin = 0, .end = kCopiedFloats, .push = false});
  EXPECT_THROW(member.finish(), Error);
  EXPECT_EQ(member.traffic().from_copy, before);
}

/// As when a worker joins while a server is stopped, of which the coordinator does not know yet.
TEST_F(StoreCopies, AMemberThatHasNotConnectedYetIsMovedToo) {
  begin();
  test::Relay stopped(addresses_[0]);
  stopped.stall(true);
  StoreClient member({.address = stopped.address(),
                      .job = "job",
                      .member = 1,
                      .patience_seconds = 4,  // the greeting has 5 s
                      .shard = 1,
                      .generation = head(0).generation - 1});
  std::thread moving([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    member.move(head(0));
  });
  EXPECT_NO_THROW(member.attach());
  moving.join();
  EXPECT_TRUE(push(member, 1).finite);
}

TEST_F(StoreCopies, UpdatesDoNotTravelBetweenServersThatShareMemory) {
  test::Relay relay(addresses_[0]);
  addresses_[0] = relay.address();
  begin();
  StoreClient& worker = client(0, 1);
  // Another value in each block: nobody may write one that is still to be read.
  const auto value = [](size_t at) { return static_cast<float>(at / kBlockFloats + 1); };
  for (size_t i = 0; i < kCopiedFloats; ++i) worker.outgoing()[i] = -value(i);
  const uint64_t before = relay.passed(false);
  for (int64_t work = 1; work <= 8; ++work) {
    // What was kept for a connection that is gone is sent to the next one.
    if (work == 4) relay.cut();
    StoreExchange exchange = whole(worker);
    exchange.pull = false;
    exchange.work = work;
    worker.start(exchange);
    EXPECT_TRUE(worker.finish().finite);
  }
  EXPECT_LT(relay.passed(false) - before, 2 * kCopiedFloats * sizeof(float)) << "of 8 pushes";
  kill(0);
  std::vector<float> floats(kCopiedFloats);
  worker.read("", floats);
  for (size_t i = 0; i < kCopiedFloats; ++i) ASSERT_EQ(floats[i], 8 * value(i)) << i;
}

// Those of a few floats travel with their frames, the others in shared memory.
TEST_F(StoreCopies, UpdatesOfAllSizesArriveInOrder) {
  begin();
  StoreClient& worker = client(0, 1);
  fill(worker, -1);
  std::vector<float> expected(kCopiedFloats);
  std::mt19937 draw(7);
  for (int64_t work = 1; work <= 600;) {
    for (int i = 0; i < 12; ++i, ++work) {
      StoreExchange exchange = whole(worker);
      const size_t floats = draw() % 3 == 0 ? kRangeFloats * (1 + draw() % 100) : kBlockFloats / 4;
      exchange.begin = draw() % 2 * kBlockFloats;
      exchange.end = exchange.begin + floats;
      exchange.pull = false;
      exchange.work = work;
      worker.start(exchange);
      for (size_t at = exchange.begin; at < exchange.end; ++at) ++expected[at];
    }
    EXPECT_TRUE(worker.finish().finite);
  }
  EXPECT_EQ(count("is not followed"), 0);
  EXPECT_FALSE(test::says(log_.all(), "is not followed"));
  kill(0);
  std::vector<float> floats(kCopiedFloats);
  worker.read("", floats);
  EXPECT_EQ(floats, expected);
}

TEST_F(StoreCopies, AServerThatReturnsIsFilledWhileOthersPush) {
  begin();
  std::atomic<int64_t> pushed{0};
  std::atomic<bool> over{false};
  StoreClient& worker = client(0, 1);
  std::thread pushing([&] {
    while (!over) push(worker, ++pushed);
  });
  for (int round = 0; round < 4; ++round) {
    const size_t server = round % 2;
    kill(server);
    restart(server);
    wait_for_copies(2 + round);
  }
  over = true;
  pushing.join();
  expect_everywhere(worker, static_cast<float>(pushed));
  EXPECT_EQ(chains_->failure(), std::nullopt);
}

TEST_F(StoreCopies, AServerThatReturnsIsTheHeadAgain) {
  begin();
  StoreClient& worker = client(0, 1);
  push(worker, 1);
  kill(0);
  push(worker, 2);
  EXPECT_TRUE(chain_log_.hears("what parameter server 0 holds is served by " + addresses_[1]));
  restart(0);
  EXPECT_TRUE(chain_log_.hears("what parameter server 0 holds is served by " + addresses_[0])) << log_.all();
  for (int64_t work = 1; work <= 5; ++work) EXPECT_TRUE(push(worker, work).finite);
  kill(1);
  push(worker, 5);
  expect_everywhere(worker, 5);
}

/// Each server in turn is replaced by one that joins, while others push to both shards.
TEST_F(StoreCopies, AServerThatJoinsIsFilledAndTakesAPlace) {
  begin();
  std::array<std::atomic<int64_t>, 2> pushed{};
  std::atomic<bool> over{false};
  std::array<StoreClient*, 2> workers{&client(0, 1), &client(1, 2)};
  std::array<std::thread, 2> pushing;
  for (size_t w = 0; w < 2; ++w)
    pushing[w] = std::thread([&, w] {
      while (!over) push(*workers[w], ++pushed[w]);
    });
  for (size_t lost = 0; lost < 3; ++lost) {
    const size_t joined = join_another();
    wait_until([&] { return even() && copies_on(joined) > 0; }, "a place for the server that has joined");
    kill(lost);
    wait_for_copies(2 + static_cast<int>(lost));
    EXPECT_EQ(count("the parameter server " + addresses_[lost] + " is lost: it has not answered for"), 1);
  }
  over = true;
  for (std::thread& thread : pushing) thread.join();
  for (size_t w = 0; w < 2; ++w) {
    EXPECT_EQ(push(*workers[w], pushed[w]).lost_updates, 0);
    expect_everywhere(*workers[w], static_cast<float>(pushed[w]));
  }
  EXPECT_EQ(chains_->failure(), std::nullopt);
}

TEST_F(StoreCopies, AServerForgetsACopyThatHasMoved) {
  begin();
  push(client(0, 1), 1);
  join_another();
  EXPECT_TRUE(log_.hears("its copy of shard 1 is on another server now")) << chain_log_.all();
  const size_t floats = 2 * kCopiedFloats * sizeof(float);
  EXPECT_EQ(servers_[0]->memory().arenas, floats);
  EXPECT_EQ(servers_[1]->memory().arenas, 2 * floats);
  EXPECT_EQ(servers_[2]->memory().arenas, floats);
}

/// The next coordinator asks those that have joined, and begins without a server that is no more.
TEST_F(StoreCopies, TheNextCoordinatorKnowsWhoHasJoined) {
  begin();
  const size_t joined = join_another();
  EXPECT_TRUE(log_.hears(addresses_[joined] + " holds a copy of shard"));
  chains_.reset();
  forget_clients();
  ASSERT_EQ(joined_, (std::vector<std::string>{addresses_[joined]}));
  kill(0);
  begin();
  StoreClient& worker = client(0, 1);
  EXPECT_TRUE(push(worker, 1).finite);
  kill(1);
  push(worker, 2);
  expect_everywhere(worker, 2);
}

TEST_F(StoreCopies, AServerJoinsOnceUnderOneAddress) {
  begin();
  chains_->join(addresses_[1]);
  const test::Relay relay(addresses_[0]);
  chains_->join(relay.address());
  EXPECT_TRUE(chain_log_.hears("the parameter server " + relay.address() +
                               " is left out: it has another address here"));
  EXPECT_EQ(count(addresses_[1] + " has joined"), 1) << "at the start";
  EXPECT_TRUE(push(client(0, 1), 1).finite);
  EXPECT_EQ(chains_->failure(), std::nullopt);
}

TEST_F(StoreCopies, AServerLeavesWhenAnotherHasWhatItHas) {
  begin();
  StoreClient& worker = client(0, 1);
  EXPECT_TRUE(push(worker, 1).finite);
  kill(1);
  restart(1);  // has nothing yet
  EXPECT_TRUE(servers_[0]->leave(std::chrono::seconds(20))) << chain_log_.all();
  kill(0);
  EXPECT_TRUE(push(worker, 2).finite);
  expect_everywhere(worker, 2);
  EXPECT_TRUE(chain_log_.hears("the parameter server " + addresses_[0] + " leaves"));
  const int before = count("all variables have 2 copies");
  restart(0);
  wait_for_copies(before + 1);
  EXPECT_EQ(count("the parameter server " + addresses_[1] + " is lost"), 1);
  EXPECT_EQ(count("the parameter server " + addresses_[0] + " is lost"), 0) << chain_log_.all();
  EXPECT_EQ(chains_->failure(), std::nullopt);
  chains_.reset();
  EXPECT_FALSE(servers_[0]->leave(std::chrono::seconds(20))) << "nobody asks for it any more";
}

/// A round that was still open when its server's chain changed is given up, and both learn it: they try
/// again, as a coordinator would have them do.
TEST_F(StoreCopies, ARoundOfTwoMembersIsAppliedOnceWhateverDies) {
  begin();
  std::array<StoreClient*, 2> workers{&client(1, 1), &client(1, 2)};
  constexpr int64_t kRounds = 60;
  std::array<std::thread, 2> threads;
  std::array<std::atomic<bool>, 2> late;
  std::barrier both(2);
  for (uint32_t w = 0; w < 2; ++w)
    threads[w] = std::thread([&, w] {
      int64_t number = 0;
      for (int64_t work = 1; work <= kRounds;) {
        fill(*workers[w], -1);
        StoreExchange exchange = whole(*workers[w]);
        exchange.samples = 1;
        exchange.work = work;
        exchange.round = StoreRound{.number = ++number, .members = {1, 2}};
        workers[w]->start(exchange);
        late[w] = workers[w]->finish().late;
        both.arrive_and_wait();
        EXPECT_EQ(late[0], late[1]) << "work " << work;
        if (!late[0]) ++work;
        both.arrive_and_wait();
      }
    });
  for (int round = 0; round < 3; ++round) {
    kill((round + 1) % 2);
    restart((round + 1) % 2);
    wait_for_copies(2 + round);
  }
  for (std::thread& thread : threads) thread.join();
  expect_everywhere(*workers[0], kRounds);
}

TEST_F(StoreCopies, NobodyServesWhenBothCopiesAreGone) {
  begin();
  kill(0);
  restart(0);
  kill(1);
  restart(1);
  for (int i = 0; i < 1000 && !chains_->failure(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_TRUE(chains_->failure().has_value());
  EXPECT_TRUE(test::says(chains_->failure()->what(), "no copy of what parameter server"));
}

TEST_F(StoreCopies, TheLatestCoordinatorHasTheServers) {
  begin();
  const std::unique_ptr<StoreChains> before = std::move(chains_);  // which still tells where heads are
  forget_clients();
  begin(7);
  push(client(0, 1), 1);
  std::vector<float> floats(kCopiedFloats);
  client(0, 0).read("", floats);
  EXPECT_EQ(floats.front(), 8);
  for (int i = 0; i < 1000 && !before->failure(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_TRUE(before->failure().has_value());
  EXPECT_TRUE(test::says(before->failure()->what(), "another coordinator of this run has taken"));
}

/// All that passes the first server's network for a push of n floats: 4n bytes from the member, and 4n to the
/// next server. For each block the member and the next server send one frame, and get one frame.
TEST_F(StoreCopies, APushOfNFloatsCosts4NBytesMoreAndASecondRoundTrip) {
  servers_share_ = false;
  for (size_t s = 0; s < 2; ++s) {
    kill(s);
    restart(s);
  }
  const test::Relay relay(addresses_[0]);
  addresses_[0] = relay.address();
  begin();
  StoreClient& worker = client(0, 1);
  int64_t work = 0;
  for (const size_t floats : {size_t{16}, kCopiedFloats}) {
    const std::array<uint64_t, 2> before{relay.passed(false), relay.passed(true)};
    const size_t pushes = floats == kCopiedFloats ? 5 : 300;
    fill(worker, -1);
    for (size_t i = 0; i < pushes; ++i) {
      StoreExchange exchange = whole(worker);
      exchange.end = floats;
      exchange.pull = false;
      exchange.work = ++work;
      worker.start(exchange);
      worker.finish();
    }
    const size_t blocks = (floats + kBlockFloats - 1) / kBlockFloats;
    const size_t expected = pushes * (4 * floats + 2 * blocks * sizeof(FrameHeader));
    // HTTP/2 has about 40 bytes for a frame of ours, and 9 for each 16 KB of it. A third frame would be 112.
    const size_t most = expected + pushes * (2 * blocks * 60 + floats / 256);
    for (const bool to_server : {false, true}) {
      const uint64_t passed = relay.passed(to_server) - before[to_server ? 1 : 0];
      EXPECT_GT(passed, expected) << floats << " floats";
      EXPECT_LT(passed, most) << floats << " floats";
    }
  }
}

TEST_F(StoreCopies, APushWithoutANumberIsRefused) {
  begin();
  StoreClient& worker = client(0, 1);
  fill(worker, -1);
  worker.start(whole(worker));
  EXPECT_TRUE(log_.hears("a push without a number"));
}

TEST_F(StoreCopies, AnAddressThatIsRefusedIsNotKept) {
  begin();
  test::expect_error([&] { chains_->join("node9:7001"); }, {"is not safe"});
  const size_t joined = join_another();
  EXPECT_TRUE(log_.hears(addresses_[joined] + " holds a copy of shard"));
  chains_.reset();
  forget_clients();
  EXPECT_EQ(joined_, (std::vector<std::string>{addresses_[joined]}));
  EXPECT_NO_THROW(begin());
}

/// As JoiningServer asks.
TEST_F(StoreCopies, AServerOfAnotherJobHearsWhyItCannotJoin) {
  begin();
  const std::unique_ptr<StoreServer> other = of_another_job("127.0.0.1:0");
  chains_->join(other->address());
  EXPECT_TRUE(chain_log_.hears(other->address() + " is left out"));
  test::expect_error([&] { chains_->join(other->address()); }, {"holds the parameters of another job"});
  EXPECT_EQ(count("is left out"), 1);
}

TEST_F(StoreCopies, AServerThatCannotReachTheOthersStopsNobody) {
  test::Relay relay(addresses_[0]);
  addresses_[0] = relay.address();
  begin();
  StoreClient& worker = client(1, 1);  // of the shard whose second copy moves
  EXPECT_TRUE(push(worker, 1).finite);
  relay.shut(true);  // for new connections
  const size_t joined = join_another();
  EXPECT_TRUE(chain_log_.hears(addresses_[joined] + " is left out: it cannot connect to another"));
  EXPECT_TRUE(push(worker, 2).finite);
  EXPECT_EQ(chains_->failure(), std::nullopt);
  test::expect_error([&] { chains_->join(addresses_[joined]); }, {addresses_[joined], "cannot connect to"},
                     Error::Kind::run);
}

TEST_F(StoreCopies, AnotherServerInThePlaceOfALostOneCostsNothing) {
  begin();
  EXPECT_TRUE(push(client(0, 1), 1).finite);
  kill(1);
  servers_[1] = of_another_job(addresses_[1]);
  EXPECT_TRUE(chain_log_.hears("is lost"));
  EXPECT_TRUE(chain_log_.hears("holds the parameters of another job")) << "once";
  EXPECT_EQ(chains_->failure(), std::nullopt);
  EXPECT_TRUE(push(client(0, 2), 2).finite);
}

/// Its arenas may be large.
TEST_F(StoreCopies, AServerThatTakesLongToMakeACopyKeepsItsOthers) {
  std::atomic<bool> slow{false};
  std::atomic<int> made{0};
  StoreServerOptions options = server_options("127.0.0.1:0", "");
  options.make_update = [&](const std::string&, const StoreLayout&) -> std::unique_ptr<StoreUpdate> {
    if (slow) std::this_thread::sleep_for(std::chrono::seconds(3));
    ++made;
    return std::make_unique<PlainUpdate>();
  };
  begin();
  servers_.push_back(std::make_unique<StoreServer>(options));
  addresses_.push_back(servers_.back()->address());
  chains_->join(addresses_.back());
  wait_until([&] { return even() && copies_on(2) == 1; }, "a copy");
  const int before = made;
  slow = true;
  kill(0);  // its copies go to 1 and 2
  wait_until([&] { return copies_on(2) == 2; }, "a second copy");
  EXPECT_EQ(made, before + 1);
  EXPECT_EQ(count(addresses_[2] + " is lost"), 0);
  EXPECT_EQ(chains_->failure(), std::nullopt);
  chains_.reset();
}

TEST_F(StoreCopies, ARunWhoseServersDoNotComeBackEnds) {
  begin();
  kill(0);
  kill(1);
  wait_until([&] { return chains_->failure().has_value(); }, "an end");
  EXPECT_TRUE(test::says(chains_->failure()->what(), "no parameter server with a copy of what server"));
}

std::vector<std::byte> damaged_state(const std::vector<std::byte>& bytes, size_t at) {
  std::vector<std::byte> changed = bytes;
  changed[at] = std::byte{0xff};
  return changed;
}

TEST(StoreBlockState, IsDecodedAsItWasOrRefused) {
  StoreBlockState state{
      .segments = {{.begin = 0, .end = 16, .version = 3, .round = 4}, {.begin = 16, .end = 64}}, .works = {}};
  for (const int64_t work : {1, 2, 3, 7}) state.works[{0, 16}].add(work);
  const std::vector<std::byte> bytes = encode_block_state(state);
  const auto decoded = [](const std::vector<std::byte>& of) {
    return decode_block_state(FramePayload({std::span(of)}));
  };
  const StoreBlockState same = decoded(bytes);
  ASSERT_EQ(same.segments.size(), 2U);
  EXPECT_EQ(same.segments[0].round, 4);
  EXPECT_EQ(same.works.at({0, 16}).ranges(), state.works.at({0, 16}).ranges());
  test::expect_error([&] { decoded({bytes.begin(), bytes.end() - 1}); }, {"the state of a block"});
  test::expect_error([&] { decoded({}); }, {"the state of a block"});
  test::expect_error([&] { decoded(damaged_state(bytes, 3)); }, {"the state of a block"});
  const size_t first_work = sizeof(uint64_t) + 2 * sizeof(StoreSegment) + 2 * sizeof(uint64_t);
  test::expect_error([&] { decoded(damaged_state(bytes, first_work + 7)); }, {"of the work of a block"});
}

}  // namespace
}  // namespace telar
