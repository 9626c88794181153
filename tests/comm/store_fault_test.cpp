#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>

#include "io/temp_folder.h"
#include "store_fixture.h"
#include "support/sentences.h"
#include "telar/comm/store/held_store.h"

namespace telar {
namespace {

constexpr size_t kFaultFloats = 600'000;

class StoreFaults : public StoreTest {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              fmt::format("telar-store-{}-{}", getpid(),
                          ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

void push_once(StoreClient& client, float value) {
  std::ranges::fill(client.outgoing(), value);
  client.start({.begin = 0, .end = client.outgoing().size(), .learning_rate = 1, .samples = 1});
}

TEST_F(StoreFaults, ResumesFromItsSnapshotAndClientsReconnect) {
  for (const bool shared : {false, true}) {
    std::filesystem::remove_all(folder_);
    auto server = serve("127.0.0.1:0", folder_);
    const std::string address = server->address();
    StoreClientOptions options = client_options(*server, 1);
    options.shared_memory = shared;
    SentenceLog sentences;
    options.say = sentences.say();
    StoreClient client(options);
    EXPECT_FALSE(client.create(layout_of(kFaultFloats), "plain"));
    client.attach();
    for (int i = 0; i < 3; ++i) {
      push_once(client, -1);
      client.finish();
    }
    server.reset();
    push_once(client, -1);
    server = serve(address, folder_);
    const StoreReport report = client.finish();
    EXPECT_EQ(report.lost_updates, 0);
    EXPECT_EQ(client.incoming()[0], 4);
    EXPECT_EQ(client.incoming()[kFaultFloats - 1], 4);
    EXPECT_EQ(client.traffic().shared_memory, shared);
    EXPECT_TRUE(sentences.hears("was lost")) << sentences.all();
    EXPECT_TRUE(sentences.hears("is reachable again")) << sentences.all();
    std::vector<float> steps(kFaultFloats);
    client.read("steps", steps);
    EXPECT_EQ(steps, std::vector<float>(kFaultFloats, 4));
  }
}

TEST_F(StoreFaults, UpdatesAfterTheLastSnapshotAreReportedAsLost) {
  auto server = serve("127.0.0.1:0", folder_);
  const std::string address = server->address();
  const auto client = attached(*server, kFaultFloats);
  push_once(*client, -1);
  client->finish();
  server.reset();
  std::filesystem::copy(folder_, folder_.string() + "-old");
  server = serve(address, folder_);
  for (int i = 0; i < 5; ++i) {
    push_once(*client, -1);
    EXPECT_EQ(client->finish().lost_updates, 0);
  }
  server.reset();
  std::filesystem::remove_all(folder_);
  std::filesystem::rename(folder_.string() + "-old", folder_);
  server = serve(address, folder_);
  push_once(*client, -1);
  EXPECT_EQ(client->finish().lost_updates, 5);
  EXPECT_EQ(client->incoming()[0], 2);
}

TEST_F(StoreFaults, AKilledServerKnowsHowManyUpdatesItHasLost) {
  auto server = serve("127.0.0.1:0", folder_);
  const std::string address = server->address();
  SentenceLog sentences;
  StoreClientOptions options = client_options(*server, 0);
  options.say = sentences.say();
  StoreClient coordinator(options);
  coordinator.create(layout_of(kFaultFloats), "plain");
  coordinator.attach();
  std::vector<float> values(kFaultFloats);
  coordinator.write("", values, 0);
  const auto client = attached(*server, kFaultFloats);
  const auto push = [&](int times) {
    for (int i = 0; i < times; ++i) {
      push_once(*client, -1);
      client->finish();
    }
  };
  // A kill leaves the snapshot of the start, and the count of the updates since.
  auto kill = [&, snapshot = std::string()](int updates) mutable {
    if (snapshot.empty()) snapshot = test::read_text(folder_ / "store.snapshot");
    push(updates);
    const std::string count = test::read_text(folder_ / "store.updates");
    server.reset();
    test::write_text(folder_ / "store.snapshot", snapshot);
    test::write_text(folder_ / "store.updates", count);
    server = serve(address, folder_);
    push_once(*client, 0);
    client->finish();
    coordinator.read("", values);
  };
  push(1);
  EXPECT_EQ(coordinator.losses(), StoreLosses{});
  kill(5);
  EXPECT_TRUE(sentences.hears("it was restarted and has lost 6 updates since its snapshot"))
      << sentences.all();
  EXPECT_EQ(coordinator.losses(), (StoreLosses{.restarts = 1, .updates = 6}));
  kill(2);
  EXPECT_EQ(coordinator.losses(), (StoreLosses{.restarts = 2, .updates = 9}));
}

/// A push whose answer was lost with the server is sent again, and a round of which not everybody has heard
/// is repeated.
TEST_F(StoreFaults, ARestartedServerAppliesEachPieceOfWorkOnce) {
  struct Pushed {
    int64_t work;
    int64_t round;
    float expected;
  };
  for (const bool in_rounds : {false, true}) {
    std::filesystem::remove_all(folder_);
    for (const Pushed& push : {Pushed{7, 1, 1}, {7, 1, 1}, {7, 2, 1}, {9, 3, 2}, {8, 4, 3}, {9, 5, 3}}) {
      const auto server = serve("127.0.0.1:0", folder_);
      const auto client = attached(*server, kFaultFloats);
      fill(*client, -1);
      StoreExchange exchange = whole(*client);
      exchange.work = push.work;
      if (in_rounds) exchange.round = StoreRound{.number = push.round, .members = {1}};
      client->start(exchange);
      EXPECT_FALSE(client->finish().late) << "work " << push.work;
      EXPECT_EQ(client->incoming()[0], push.expected) << "work " << push.work;
      EXPECT_EQ(client->incoming()[kFaultFloats - 1], push.expected) << "work " << push.work;
    }
  }
}

TEST_F(StoreFaults, SnapshotsThatCannotBeSavedAreReportedOnce) {
  StoreServerOptions options = server_options("127.0.0.1:0", folder_);
  options.snapshot_seconds = 0.02;
  const StoreServer server(options);
  const auto in_the_way = folder_ / fmt::format("store.snapshot.tmp-{}", getpid());
  std::filesystem::create_directories(in_the_way);
  const auto client = attached(server, 64);
  const auto push = [&] {
    push_once(*client, -1);
    client->finish();
  };
  for (int i = 0; i < 10; ++i) {
    push();
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  }
  const std::string sentence = "The snapshot could not be saved";
  EXPECT_TRUE(log_.hears(sentence)) << log_.all();
  EXPECT_EQ(log_.all().find(sentence), log_.all().rfind(sentence)) << log_.all();
  std::filesystem::remove(in_the_way);
  push();
  EXPECT_TRUE(log_.hears("Snapshots are saved again")) << log_.all();
}

TEST_F(StoreFaults, SnapshotsAreOneServersAlone) {
  auto first = serve("127.0.0.1:0", folder_);
  std::ofstream(folder_ / "of-the-first") << "x";
  StoreServerOptions options = server_options("127.0.0.1:0", folder_);
  options.fresh = true;
  test::expect_error([&] { const StoreServer second(options); },
                     {"another parameter server keeps its snapshots in", folder_.string()});
  EXPECT_TRUE(std::filesystem::exists(folder_ / "of-the-first"));

  const std::jthread ends([&first] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    first.reset();
  });
  const StoreServer second(options);  // waits for the first one
  EXPECT_FALSE(std::filesystem::exists(folder_ / "of-the-first"));
}

TEST_F(StoreFaults, SnapshotsFollowTheLoad) {
  EXPECT_DOUBLE_EQ(snapshot_pause(5, 0.01, 0.01), 0.98) << "a kill costs 1 s";
  EXPECT_DOUBLE_EQ(snapshot_pause(500, 0.01, 0.01), 4.98) << "1 % of the run";
  EXPECT_DOUBLE_EQ(snapshot_pause(50'000, 0.01, 0.01), 9.98) << "at most 10 s";
  EXPECT_DOUBLE_EQ(snapshot_pause(5, 0.1, 0.1), 4.9) << "2 % of a processor";
  EXPECT_DOUBLE_EQ(snapshot_pause(5, 30, 0.1), 30) << "half of the disk";
  StoreServerOptions options = server_options("127.0.0.1:0", folder_);
  options.snapshot_seconds = StoreServerOptions().snapshot_seconds;
  const StoreServer server(options);
  const auto client = attached(server, kFaultFloats);
  push_once(*client, -1);
  client->finish();
  const auto written = [&] { return std::filesystem::last_write_time(folder_ / "store.snapshot"); };
  const auto first = written();
  for (int i = 0; i < 60 && written() == first; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_GT(written(), first);
}

TEST_F(StoreFaults, AServerThatWasTakenOverRefusesTheMembersOfBefore) {
  const auto server = serve();
  const auto take_over = [&] {
    StoreClientOptions options = client_options(*server, 0);
    options.takes_over = true;
    auto coordinator = std::make_unique<StoreClient>(options);
    coordinator->create(layout_of(kFaultFloats), "plain");
    coordinator->attach();
    coordinator->write("", std::vector<float>(kFaultFloats, 7), 0);
    return coordinator;
  };
  const auto join = [&](uint64_t tenure, bool shared) {
    StoreClientOptions options = client_options(*server, 1);
    options.tenure = tenure;
    options.shared_memory = shared;
    auto member = std::make_unique<StoreClient>(options);
    member->attach();
    return member;
  };
  for (const bool shared : {false, true}) {
    const auto former = take_over();
    EXPECT_NE(former->tenure(), 0);
    const auto member = join(former->tenure(), shared);
    push_once(*member, -1);
    member->finish();
    EXPECT_EQ(member->incoming()[0], 8);
    EXPECT_FALSE(former->failure());

    const auto present = take_over();
    push_once(*member, -1);  // of a batch that the other coordinator leases again
    test::expect_error([&] { member->finish(); }, {"refused: another coordinator of this run has taken"});
    std::vector<float> values(kFaultFloats);
    EXPECT_EQ(present->read("", values), 0);
    EXPECT_EQ(values, std::vector<float>(kFaultFloats, 7));
    test::expect_error([&] { former->read("", values); }, {"has taken this server over since then"});
    ASSERT_TRUE(former->failure());
    EXPECT_NE(std::string(former->failure()->what()).find("another coordinator"), std::string::npos);
    test::expect_error([&] { join(former->tenure(), shared); }, {"another coordinator"});
    const auto next = join(present->tenure(), shared);
    push_once(*next, -1);
    next->finish();
    EXPECT_EQ(next->incoming()[0], 8);
    EXPECT_EQ(present->read("", values), 1);
  }
  test::expect_error(
      [&] {
        const auto stranger = join(0, false);
        push_once(*stranger, -1);
        stranger->finish();
      },
      {"only members of its run may use it"});
}

TEST_F(StoreFaults, ARestartedServerRefusesThoseWhoHadTakenItOver) {
  for (const bool keeps : {false, true}) {
    auto server = serve("127.0.0.1:0", folder_);
    const std::string address = server->address();
    StoreClientOptions options = client_options(*server, 0);
    options.takes_over = true;
    StoreClient coordinator(options);
    coordinator.create(layout_of(kFaultFloats), "plain");
    coordinator.attach();
    std::vector<float> values(kFaultFloats, 7);
    coordinator.write("", values, 0);
    options.takes_over = false;
    options.tenure = coordinator.tenure();
    options.member = 1;
    StoreClient member(options);
    member.attach();
    push_once(member, -1);
    member.finish();
    server.reset();
    EXPECT_FALSE(coordinator.failure());  // it may only be away
    if (!keeps) std::filesystem::remove_all(folder_);
    server = serve(address, folder_);
    const std::string reason = "this server does not hold the parameters that the run has written";
    push_once(member, -1);
    test::expect_error([&] { member.finish(); }, {reason});
    test::expect_error([&] { coordinator.read("", values); }, {reason});
    EXPECT_TRUE(coordinator.failure());
    StoreClient late(options);
    test::expect_error([&] { late.attach(); }, {reason});
    server.reset();
    std::filesystem::remove_all(folder_);
  }
}

TEST_F(StoreFaults, WithoutItsCountAServerDoesNotKnowHowManyUpdatesItHasLost) {
  auto server = serve("127.0.0.1:0", folder_);
  const std::string address = server->address();
  SentenceLog sentences;
  StoreClientOptions options = client_options(*server, 0);
  options.say = sentences.say();
  StoreClient coordinator(options);
  coordinator.create(layout_of(64), "plain");
  coordinator.attach();
  std::vector<float> values(64);
  coordinator.write("", values, 0);
  const auto worker = attached(*server, 64);
  push_once(*worker, -1);
  worker->finish();
  server.reset();
  std::fstream(folder_ / "store.updates", std::ios::in | std::ios::out | std::ios::binary).seekp(8) << '\x7f';
  server = serve(address, folder_);
  EXPECT_TRUE(log_.hears("how many updates after the snapshot are lost is unknown: ")) << log_.all();
  EXPECT_TRUE(log_.hears("store.updates is damaged"));
  coordinator.read("", values);
  EXPECT_TRUE(sentences.hears("it was restarted and has lost an unknown number of updates"))
      << sentences.all();
  EXPECT_EQ(coordinator.losses(), (StoreLosses{.restarts = 1, .updates = 0, .unknown = 1}));
}

TEST_F(StoreFaults, WritesASnapshotAtTheFirstWorkerButNoneBefore) {
  const auto server = serve("127.0.0.1:0", folder_);
  const auto coordinator = attached(*server, kFaultFloats, 0);
  coordinator->write("", std::vector<float>(kFaultFloats, 7), 0);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "store.snapshot"));
  const auto worker = connect(*server, 1);
  worker->attach();
  push_once(*worker, 0);
  worker->finish();
  std::filesystem::copy(folder_, folder_.string() + "-killed");
  const auto again = serve("127.0.0.1:0", folder_.string() + "-killed");
  const auto other = connect(*again, 1);
  other->attach();
  std::vector<float> values(kFaultFloats);
  other->read("", values);
  EXPECT_EQ(values, std::vector<float>(kFaultFloats, 7));
  std::filesystem::remove_all(folder_.string() + "-killed");
}

TEST_F(StoreFaults, ADamagedSnapshotIsRefused) {
  {
    const auto server = serve("127.0.0.1:0", folder_);
    const auto client = attached(*server, kFaultFloats);
    push_once(*client, -1);
    client->finish();
  }
  const auto path = folder_ / "store.snapshot";
  std::filesystem::remove(folder_ / "store.snapshot.previous");
  const auto size = std::filesystem::file_size(path);
  for (const auto shorter : {size - 1, size / 2, uintmax_t{100}, uintmax_t{5}, uintmax_t{0}}) {
    std::filesystem::resize_file(path, shorter);
    try {
      serve("127.0.0.1:0", folder_);
      FAIL() << "accepted with " << shorter << " bytes";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::user);
      EXPECT_NE(std::string(error.what()).find("not a complete snapshot"), std::string::npos) << error.what();
    }
  }
}

TEST_F(StoreFaults, RefusesAnotherTokenJobAndOptimizer) {
  StoreServerOptions own = server_options("127.0.0.1:0", "");
  own.security.token = "0123456789abcdef";
  const StoreServer server(own);
  const auto sentence_of = [&](const std::string& token, const std::string& job,
                               const std::string& description) {
    StoreClientOptions options = client_options(server, 1);
    options.security.token = token;
    options.job = job;
    StoreClient client(options);
    try {
      client.create(layout_of(kFaultFloats), description);
      client.attach();
      push_once(client, 1);
      client.finish();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::user);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(sentence_of("0123456789abcdeX", "job", "plain").find("token"), std::string::npos);
  EXPECT_NE(sentence_of("0123456789abcdef", "job", "adagrud").find("'adagrud' is unknown"),
            std::string::npos);
  EXPECT_EQ(sentence_of("0123456789abcdef", "job", "plain"), "");
  EXPECT_NE(sentence_of("0123456789abcdef", "other", "plain").find("another job"), std::string::npos);
  EXPECT_TRUE(log_.hears("was refused"));
}

TEST_F(StoreFaults, SurvivesGarbageAndSilence) {
  const auto server = serve();
  const auto client = attached(*server, kFaultFloats);
  std::vector<int> silent;
  const std::string address = server->address();
  for (int i = 0; i < 20; ++i) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.find(':') + 1))));
    const int connection = socket(AF_INET, SOCK_STREAM, 0);
    ASSERT_EQ(::connect(connection, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
    if (i % 2 == 0) {
      const std::string garbage(static_cast<size_t>(1000 * i + 10), static_cast<char>(i * 37));
      EXPECT_GT(send(connection, garbage.data(), garbage.size(), MSG_NOSIGNAL), 0);
      close(connection);
    } else {
      silent.push_back(connection);
    }
  }
  push_once(*client, -1);
  client->finish();
  EXPECT_EQ(client->incoming()[0], 1);
  for (const int connection : silent) close(connection);
}

TEST_F(StoreFaults, WaitingEndsWithTheStopTokenAndWithThePatience) {
  auto server = serve();
  StoreClientOptions options = client_options(*server, 1);
  std::stop_source stop;
  options.stop = stop.get_token();
  StoreClient stopped(options);
  stopped.create(layout_of(kFaultFloats), "plain");
  stopped.attach();
  StoreClientOptions hasty = client_options(*server, 2);
  hasty.patience_seconds = 0.5;
  StoreClient impatient(hasty);
  impatient.attach();
  server.reset();
  push_once(stopped, 1);
  push_once(impatient, 1);
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    stop.request_stop();
  });
  EXPECT_THROW(stopped.finish(), Error);
  EXPECT_THROW(impatient.finish(), Error);
  later.join();
}

}  // namespace
}  // namespace telar
