#include <grpcpp/grpcpp.h>

#include <future>
#include <limits>
#include <set>
#include <stop_token>

#include "comm/members_support.h"
#include "comm/relay.h"
#include "telar/comm/grpc_security.h"
#include "telar/comm/members/members.grpc.pb.h"

namespace telar::test {
namespace {

using namespace std::chrono_literals;

/// Works until the training ends. If a busy machine keeps it silent for too long, it is lost and joins again.
std::jthread member_thread(const std::string& coordinator, WorkerLoop& loop) {
  return std::jthread([&loop, options = member_options(coordinator, "steady")] {
    for (bool again = true; again;) {
      Membership membership(options);
      loop.run(membership);
      again = membership.lost();
    }
  });
}

/// A member that speaks the protocol without our client.
struct RawMember {
  explicit RawMember(const std::string& coordinator, const Security& security = {})
      : stub(members::Members::NewStub(secure_channel(coordinator, security, 64 << 20))) {}
  void begin(const Security& security = {}) {
    introduce(context, security);
    stream = stub->Work(&context);
  }
  bool send(const members::Request& request) { return stream->Write(request); }
  bool hello() {
    members::Request request;
    request.mutable_hello()->set_name("raw");
    members::Reply reply;
    return send(request) && stream->Read(&reply) && reply.has_welcome();
  }
  grpc::Status end() {
    members::Reply reply;
    while (stream->Read(&reply)) {
    }
    return stream->Finish();
  }

  std::unique_ptr<members::Members::Stub> stub;
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<members::Request, members::Reply>> stream;
};

TEST(MembersFaults, ACutConnectionLosesTheMemberAtOnceAndOthersDoItsWork) {
  for (const Rhythm rhythm : {Rhythm::free, Rhythm::rounds}) {
    Sentences sentences;
    Used used;
    std::promise<void> victim_has_work;  // the other must not finish all work before
    const std::shared_future<void> has_work = victim_has_work.get_future().share();
    WorkerLoop loop{&used, rhythm == Rhythm::rounds, [&](auto&&...) { has_work.wait(); }};
    std::jthread steady;
    CoordinatorOptions options = coordinator_options(2, rhythm);
    options.say = sentences.writer();
    options.patience_seconds = 1000;
    Coordinator coordinator(options);
    Relay relay(coordinator.address());
    Membership victim(member_options(relay.address(), "victim"));
    steady = member_thread(coordinator.address(), loop);
    std::jthread cutter([&] {
      EXPECT_TRUE(victim.wait_for_work());
      EXPECT_TRUE(victim.lease().has_value());
      victim_has_work.set_value();
      relay.cut();
    });
    EXPECT_EQ(steps_of_epoch(coordinator, 0, 12).size(), 12U);
    EXPECT_EQ(used.different(), 24U);
    EXPECT_TRUE(sentences.wait_for("victim is lost: its connection broke"));
    EXPECT_EQ(coordinator.losses().members, 1);
    EXPECT_GT(coordinator.losses().parts, 0);
    cutter.join();
    EXPECT_FALSE(victim.wait_for_work());
    EXPECT_TRUE(victim.lost());
  }
}

TEST(MembersFaults, SparesThatLeaveWhileTheyAreDismissedHarmNobody) {
  constexpr size_t kSpares = 20;
  Sentences sentences;
  CoordinatorOptions options = coordinator_options(1);
  options.say = sentences.writer();
  options.patience_seconds = 60;  // no member says anything meanwhile, however busy the machine is
  Coordinator coordinator(options);
  RawMember worker(coordinator.address());
  worker.begin();
  ASSERT_TRUE(worker.hello());
  coordinator.begin_epoch(0, 0, 1000);
  for (int round = 0; round < 10; ++round) {
    coordinator.resize(1, false);
    std::vector<std::unique_ptr<RawMember>> spares;
    for (size_t i = 0; i < kSpares; ++i) {
      spares.push_back(std::make_unique<RawMember>(coordinator.address()));
      RawMember& spare = *spares.back();
      spare.begin();
      ASSERT_TRUE(spare.hello());
      members::Request request;
      request.mutable_ask_work();
      ASSERT_TRUE(spare.send(request));
      request.mutable_alive();
      ASSERT_TRUE(spare.send(request));
      members::Reply reply;
      ASSERT_TRUE(spare.stream->Read(&reply) && reply.has_alive()) << "its question has arrived";
    }
    const std::jthread leaves([&] {
      members::Request request;
      request.mutable_leave();
      for (const auto& spare : spares) spare->send(request);
    });
    while (coordinator.members().size() > kSpares - 3) std::this_thread::yield();
    coordinator.resize(1, true);
    for (const auto& spare : spares) EXPECT_TRUE(spare->end().ok());
    EXPECT_EQ(coordinator.members().size(), 1U);
  }
  EXPECT_EQ(coordinator.losses().members, 0);
  EXPECT_FALSE(sentences.contains("is lost"));
  EXPECT_FALSE(sentences.contains("a former member")) << "nobody asks about a dismissed member";
  worker.context.TryCancel();
}

TEST(MembersFaults, ASilentMemberIsLostAfterThePatienceAndMayJoinAgain) {
  Sentences sentences;
  Used used;
  WorkerLoop loop{&used, true, {}};
  std::jthread steady;
  CoordinatorOptions options = coordinator_options(2, Rhythm::rounds);
  options.say = sentences.writer();
  options.patience_seconds = 1.5;
  Coordinator coordinator(options);
  Relay relay(coordinator.address());
  Membership victim(member_options(relay.address(), "victim"));
  steady = member_thread(coordinator.address(), loop);
  std::optional<Lease> lease;
  std::jthread stopped([&] {
    EXPECT_TRUE(victim.wait_for_work());
    lease = victim.lease();
    relay.stall(true);
  });
  EXPECT_EQ(steps_of_epoch(coordinator, 0, 12).size(), 12U);
  stopped.join();
  EXPECT_TRUE(sentences.wait_for("victim is lost: silent for 1.5 seconds"));
  relay.stall(false);
  EXPECT_FALSE(victim.wait_for_work());
  EXPECT_TRUE(victim.lost());
  ASSERT_TRUE(lease.has_value());
  victim.done({.lease = lease->id, .step = lease->begin});
  EXPECT_FALSE(victim.lease().has_value());

  MembershipOptions again = member_options(relay.address(), "again");
  again.job = victim.job();
  Membership second(again);
  EXPECT_GT(second.id(), victim.id());
}

TEST(MembersFaults, MembersWaitForTheCoordinatorAndCompareItsJob) {
  auto first = std::make_unique<Coordinator>(coordinator_options(1));
  const std::string address = first->address();
  Relay relay(address);
  Membership member(member_options(relay.address()));
  relay.cut();
  EXPECT_FALSE(member.wait_for_work());
  EXPECT_TRUE(member.lost());
  first.reset();

  MembershipOptions again = member_options(address);
  again.job = member.job();
  Sentences sentences;
  again.say = sentences.writer();
  std::unique_ptr<Membership> back;
  std::jthread joiner([&] { back = std::make_unique<Membership>(again); });
  EXPECT_TRUE(sentences.wait_for("cannot be reached yet"));
  CoordinatorOptions options = coordinator_options(1);
  options.listen = address;
  auto second = std::make_unique<Coordinator>(options);
  joiner.join();
  EXPECT_FALSE(back->lost());
  back.reset();
  second.reset();

  options.job = "another";
  const Coordinator third(options);
  expect_error([&] { const Membership refused(again); }, {address, "another", "no longer job-1"});
}

TEST(MembersFaults, AnAbsentCoordinatorIsAnErrorAfterThePatience) {
  MembershipOptions options = member_options("127.0.0.1:1");
  options.patience_seconds = 0.5;
  expect_error([&] { const Membership nobody(options); }, {"127.0.0.1:1", "0.5 seconds", "refused"},
               Error::Kind::run);
}

TEST(MembersFaults, MembersGiveUpACoordinatorThatHangs) {
  const Coordinator coordinator(coordinator_options(1));
  Relay relay(coordinator.address());
  MembershipOptions options = member_options(relay.address());
  options.patience_seconds = 2;
  Membership member(options);
  relay.stall(true);
  EXPECT_FALSE(member.wait_for_work());
  EXPECT_TRUE(member.lost());
}

TEST(MembersFaults, TwoJobsDoNotTouchEachOther) {
  Used used_a;
  Used used_b;
  WorkerLoop loop_a{&used_a, false, {}};
  WorkerLoop loop_b{&used_b, false, {}};
  std::vector<std::jthread> members;
  CoordinatorOptions options_a = coordinator_options(1);
  options_a.security.token = "token-of-the-job-a";
  CoordinatorOptions options_b = coordinator_options(1);
  options_b.job = "job-2";
  options_b.security.token = "token-of-the-job-b";
  Coordinator a(options_a);
  Coordinator b(options_b);
  MembershipOptions member_of_a = member_options(a.address());
  member_of_a.security = options_a.security;
  MembershipOptions member_of_b = member_options(b.address());
  member_of_b.security = options_b.security;
  MembershipOptions lost = member_options(b.address());
  lost.security = options_a.security;
  expect_error([&] { const Membership refused(lost); }, {b.address(), "token"});
  members.emplace_back([&] {
    Membership member(member_of_a);
    loop_a.run(member);
  });
  members.emplace_back([&] {
    Membership member(member_of_b);
    loop_b.run(member);
  });
  EXPECT_EQ(steps_of_epoch(a, 0, 5).size(), 5U);
  EXPECT_EQ(steps_of_epoch(b, 0, 7).size(), 7U);
  EXPECT_EQ(used_a.different(), 5U);
  EXPECT_EQ(used_b.different(), 7U);
}

TEST(MembersFaults, RefusesAndReportsWrongTokensAndVersions) {
  Sentences sentences;
  CoordinatorOptions options = coordinator_options(1);
  options.say = sentences.writer();
  options.security.token = "0123456789abcdef";
  const Coordinator coordinator(options);
  for (const char* token : {"", "0123456789abcdeF", "0123456789abcdef0"}) {
    MembershipOptions wrong = member_options(coordinator.address());
    wrong.security.token = token;
    expect_error([&] { const Membership refused(wrong); },
                 {coordinator.address(), "the token is not the one"});
  }
  EXPECT_TRUE(sentences.wait_for("was refused: the token"));

  // One who has copied the greeting from the network, but does not know the token.
  RawMember copier(coordinator.address(), options.security);
  copier.context.AddMetadata("telar-token", "0123456789abcdeF");
  copier.context.AddMetadata("telar-protocol", std::to_string(kProtocolVersion));
  copier.stream = copier.stub->Work(&copier.context);
  EXPECT_EQ(copier.end().error_code(), grpc::StatusCode::UNAUTHENTICATED);

  RawMember other(coordinator.address(), options.security);
  other.context.AddMetadata("telar-token", options.security.token);
  other.context.AddMetadata("telar-protocol", std::to_string(kProtocolVersion + 1));
  other.stream = other.stub->Work(&other.context);
  const grpc::Status status = other.end();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(says(status.error_message(), "version"));
  EXPECT_TRUE(says(status.error_message(), std::to_string(kProtocolVersion + 1)));
}

/// A server of a release whose servers read gRPC at once, without a greeting.
class ServerOfOldRelease {
 public:
  ServerOfOldRelease() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
  }
  std::string address() const { return fmt::format("127.0.0.1:{}", port_); }

 private:
  members::Members::Service service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST(MembersFaults, AServerOfAReleaseThatDoesNotKnowTheGreetingIsNamedWithBothVersions) {
  const ServerOfOldRelease server;
  MembershipOptions options = member_options(server.address());
  options.patience_seconds = 1;
  expect_error([&] { const Membership member(options); },
               {server.address(), "cannot be reached",
                fmt::format("its protocol has version 1, here {}", kProtocolVersion)},
               Error::Kind::run);
}

/// A coordinator that welcomes a member and gives it a lease of batches 5 to 2.
class MadCoordinator : public members::Members::Service {
 public:
  grpc::Status Work(grpc::ServerContext* /*context*/,
                    grpc::ServerReaderWriter<members::Reply, members::Request>* stream) override {
    members::Request request;
    while (stream->Read(&request)) {
      members::Reply reply;
      reply.mutable_alive();
      if (request.has_hello()) reply.mutable_welcome()->set_id(1);
      if (request.has_ask_lease()) {
        reply.mutable_lease()->set_id(1);
        reply.mutable_lease()->set_begin(5);
        reply.mutable_lease()->set_end(2);
      }
      stream->Write(reply);
    }
    return grpc::Status::OK;
  }
};

TEST(MembersFaults, AMemberEndsWhenItsCoordinatorSendsSomethingImpossible) {
  MadCoordinator service;
  SecureServerBuilder builder("127.0.0.1:0", {}, 1 << 20);
  builder.grpc().RegisterService(&service);
  const std::unique_ptr<SecureServer> server = builder.start({});
  {
    Membership member(member_options(builder.address()));
    for (int i = 0; i < 2; ++i)
      expect_error([&] { member.lease(); }, {builder.address(), "sent a lease of part 0 of batches 5 to 2"},
                   Error::Kind::run);
  }
  server->shutdown();
  server->wait();
}

TEST(MembersFaults, GarbageAndSilenceDoNoHarm) {
  Used used;
  WorkerLoop loop{&used, false, {}};
  std::jthread steady;
  Sentences sentences;
  CoordinatorOptions options = coordinator_options(1);
  options.patience_seconds = 1.5;
  options.say = sentences.writer();
  Coordinator coordinator(options);

  RawClient garbage(coordinator.address(), std::string(5000, '\xff'));
  const RawClient web(coordinator.address(), "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  const RawClient nothing(coordinator.address(), "");
  RawMember quiet(coordinator.address());
  quiet.begin();
  RawMember joined(coordinator.address());
  joined.begin();
  EXPECT_TRUE(joined.hello());

  steady = member_thread(coordinator.address(), loop);
  EXPECT_EQ(steps_of_epoch(coordinator, 0, 20).size(), 20U);
  EXPECT_EQ(used.different(), 20U);
  garbage.wait_for_end();
  EXPECT_EQ(quiet.end().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(joined.end().error_code(), grpc::StatusCode::ABORTED);
  EXPECT_TRUE(sentences.contains("raw is lost: silent for 1.5 seconds"));
}

TEST(MembersFaults, InvalidMessagesEndOnlyThatMembership) {
  Coordinator coordinator(coordinator_options(1));
  coordinator.begin_epoch(0, 0, 4);
  const auto status_of = [&](const members::Request& request, bool hello) {
    RawMember member(coordinator.address());
    member.begin();
    EXPECT_TRUE(!hello || member.hello());
    member.send(request);
    return member.end().error_code();
  };
  members::Request request;
  EXPECT_EQ(status_of(request, true), grpc::StatusCode::INVALID_ARGUMENT) << "the request is empty";
  EXPECT_EQ(status_of(request, false), grpc::StatusCode::INVALID_ARGUMENT);
  request.mutable_hello()->set_name("twice");
  EXPECT_EQ(status_of(request, true), grpc::StatusCode::INVALID_ARGUMENT);
  request.mutable_ask_lease();
  EXPECT_EQ(status_of(request, false), grpc::StatusCode::INVALID_ARGUMENT)
      << "the member has not introduced itself";
  request.mutable_done()->set_samples(-5);
  EXPECT_EQ(status_of(request, true), grpc::StatusCode::INVALID_ARGUMENT);
  request.mutable_done()->set_samples(5);
  request.mutable_done()->mutable_metrics()->Resize(200'000, 1.0);
  EXPECT_EQ(status_of(request, true), grpc::StatusCode::INVALID_ARGUMENT);
  request.mutable_hello()->set_name(std::string(5 << 20, 'x'));
  EXPECT_NE(status_of(request, false), grpc::StatusCode::OK) << "the message is too large";

  RawMember member(coordinator.address());
  member.begin();
  EXPECT_TRUE(member.hello());
  request.mutable_done()->set_lease(~uint64_t{0});
  request.mutable_done()->set_step(-1);
  member.send(request);
  request.mutable_given_back()->set_step(std::numeric_limits<int64_t>::min());
  member.send(request);
  request.mutable_ask_lease();
  member.send(request);
  request.mutable_ask_round();
  member.send(request);
  request.mutable_leave();
  member.send(request);
  EXPECT_TRUE(member.end().ok()) << "reports on leases that the member does not hold are ignored";
  EXPECT_EQ(coordinator.steps_done(), 0);
  EXPECT_TRUE(coordinator.members().empty());
}

TEST(MembersFaults, MembersThatComeAndGoAtRandomLoseNothing) {
  for (const Rhythm rhythm : {Rhythm::free, Rhythm::rounds}) {
    Used used;
    std::vector<std::jthread> members;
    Coordinator coordinator(coordinator_options(3, rhythm));
    Relay relay(coordinator.address());
    std::stop_source over;
    for (int i = 0; i < 4; ++i)
      members.emplace_back([&, i] {
        MembershipOptions options =
            member_options(i < 2 ? relay.address() : coordinator.address(), std::to_string(i));
        options.stop = over.get_token();
        WorkerLoop loop{&used, rhythm == Rhythm::rounds, {}};
        loop.batch = [&](Membership&, const Lease&, int64_t) { std::this_thread::sleep_for(1ms); };
        try {
          for (;;) {
            Membership member(options);
            loop.run(member);
          }
        } catch (const Error& error) {
          EXPECT_TRUE(says(error.what(), "stopped"));
        }
      });
    std::jthread cutter([&](const std::stop_token& end) {
      for (int cuts = 0; cuts < 10 && !end.stop_requested(); ++cuts) {
        std::this_thread::sleep_for(50ms);
        relay.cut();
      }
    });
    const auto steps = steps_of_epoch(coordinator, 0, 150);
    over.request_stop();
    ASSERT_EQ(steps.size(), 150U);
    std::set<int64_t> numbers;
    for (const StepDone& step : steps) {
      numbers.insert(step.step);
      EXPECT_EQ(step.samples, 24);
    }
    EXPECT_EQ(numbers.size(), 150U);
  }
}

}  // namespace
}  // namespace telar::test
